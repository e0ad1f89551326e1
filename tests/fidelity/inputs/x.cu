#include "h.h"
#ifndef VALUE
#define VALUE 1
#endif
extern __device__ int helper(int);
__constant__ int table[4] = {1, 2, 3, VALUE};
__global__ void kernel(int *p, float f) { p[threadIdx.x] = ADD(table[threadIdx.x & 3], (int)(f / 3.0f)); }
template <class T> __global__ void shape(T *p) { *p += T(1); }
void run(int *p) {
  kernel<<<1, 32>>>(p, 2.0f);
  shape<float><<<1, 1>>>((float *)p);
}
