// A plugin on the core library: a kernel of its own, and a use of the core library's host code.
#ifndef NAME
#define NAME plugin
#endif
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
int launch_core();

__global__ void PASTE(NAME, _kernel)(int *p) { *p = 2; }

extern "C" int PASTE(run_, NAME)() {
  int *p, v = 0;
  if (cudaMalloc(&p, sizeof v) != cudaSuccess) return -1;
  PASTE(NAME, _kernel)<<<1, 1>>>(p);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost);
  cudaFree(p);
  if (error != cudaSuccess) return static_cast<int>(error);
  return v == 2 && launch_core() == 1 ? 0 : -2;
}
