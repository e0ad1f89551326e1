#define NAME plugin
#include "../quickstart/plugin.cu"
