// One kernel, named by -DNAME=…, and a host function that runs it and checks the value.
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

#ifdef NEEDS_HELPER
extern __device__ int helper(int);
#else
__device__ static int helper(int x) { return x + 1; }
#endif

__global__ void JOIN(NAME, _kernel)(int *p) { *p = helper(VALUE); }

// 0, an error of the CUDA runtime, or -1 for a wrong value.
extern "C" int JOIN(run_, NAME)() {
  int *p = nullptr, value = 0;
  cudaError_t error = cudaMalloc(&p, sizeof value);
  if (error) return error;
  JOIN(NAME, _kernel)<<<1, 1>>>(p);
  error = cudaGetLastError();
  if (!error) error = cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost);
  cudaFree(p);
  return error ? error : value == VALUE + 1 ? 0 : -1;
}
