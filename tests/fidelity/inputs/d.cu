__device__ int calls;
__device__ int helper(int x) { return ++calls + x; }
