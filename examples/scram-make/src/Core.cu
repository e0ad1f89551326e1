// The release's library.
#include "../../quickstart/core.cu"
