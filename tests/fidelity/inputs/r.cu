extern __device__ int helper(int);
__global__ void relocatable(int *p) { *p = helper(*p); }
void run_relocatable(int *p) { relocatable<<<1, 1>>>(p); }
