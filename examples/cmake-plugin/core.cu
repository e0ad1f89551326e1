void launch_shared(int *p);

__global__ void core_kernel(int *p) { *p = 1; }

extern "C" void run_core(int *p) {
  core_kernel<<<1, 1>>>(p);
  launch_shared(p);
}
