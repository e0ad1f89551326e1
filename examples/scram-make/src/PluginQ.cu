#define NAME q
#include "../../quickstart/plugin.cu"
