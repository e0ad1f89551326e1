#define NAME p
#include "../../quickstart/plugin.cu"
