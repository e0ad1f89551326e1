// One unit of a layout, told apart by macros:
//   NAME=n        a kernel n_kernel, `int launch_n()`, and `extern "C" int run_n()` (0 when the kernel ran and gave the right value)
//   USES=m        run_n also launches m's kernel through `launch_m()`
//   GIVES=f       defines `__device__ int f(int)`; WANTS=f: n_kernel calls it
//   PARENT        n_kernel launches a child kernel on the device
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
// What other images call, whatever the visibility of the rest.
#define API __attribute__((visibility("default")))
#ifdef GIVES
__device__ int PASTE(GIVES, _calls) = 0;
__device__ int GIVES(int x) { ++PASTE(GIVES, _calls); return x + 1; }
#endif
#ifdef WANTS
extern __device__ int WANTS(int);
#endif
#ifdef USES
int PASTE(launch_, USES)();
#endif
#ifdef PARENT
__global__ void PASTE(NAME, _child)(int *p) { *p = 7; }
#endif

__global__ void PASTE(NAME, _kernel)(int *p) {
#if defined(PARENT)
  PASTE(NAME, _child)<<<1, 1>>>(p);
#elif defined(WANTS)
  *p = WANTS(6);
#else
  *p = 7;
#endif
}

API int PASTE(launch_, NAME)() {
  int *p, v = 0;
  if (cudaMalloc(&p, sizeof v) != cudaSuccess) return -1;
  PASTE(NAME, _kernel)<<<1, 1>>>(p);
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost);
  cudaFree(p);
  return error != cudaSuccess ? static_cast<int>(error) : v == 7 ? 0 : -2;
}

extern "C" API int PASTE(run_, NAME)() {
  int result = PASTE(launch_, NAME)();
#ifdef USES
  if (result == 0) result = PASTE(launch_, USES)();
#endif
  return result;
}

#ifdef MAIN
// A program: with a GPU it runs everything and prints it, as the loader does.
#include <cstdio>
extern "C" int run_p1() __attribute__((weak));  // in layout L7, of the shared library
int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return 0;
  int result = PASTE(run_, NAME)();
  if (result == 0 && run_p1) result = run_p1();
  std::printf("run_main %s\n", result == 0 ? "ok" : result > 0 ? cudaGetErrorName(static_cast<cudaError_t>(result)) : "wrong value");
}
#endif
