#define NAME local
#include "../../quickstart/plugin.cu"
