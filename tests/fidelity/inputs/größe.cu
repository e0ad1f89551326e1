__global__ void letters(int *p) { *p = 4; }
