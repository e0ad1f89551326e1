__global__ void twin(int *p) { *p = 2; }
