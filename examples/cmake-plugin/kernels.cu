// What several libraries share: a device function, and a kernel with the host function that launches it.
__device__ int twice(int x) { return 2 * x; }

__global__ void shared_kernel(int *p) { *p = twice(*p); }

void launch_shared(int *p) { shared_kernel<<<1, 1>>>(p); }
