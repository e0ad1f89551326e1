// The core library: a kernel, and a host function that launches it.
__global__ void core_kernel(int *p) { *p = 1; }

int launch_core() {
  int *p, v = 0;
  if (cudaMalloc(&p, sizeof v) != cudaSuccess) return -1;
  core_kernel<<<1, 1>>>(p);
  if (cudaMemcpy(&v, p, sizeof v, cudaMemcpyDeviceToHost) != cudaSuccess) v = -2;
  cudaFree(p);
  return v;
}
extern "C" int run_core() { return launch_core() == 1 ? 0 : static_cast<int>(cudaGetLastError()) + 1; }
