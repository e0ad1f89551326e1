__global__ void blank(int *p) { *p = 3; }
