__global__ void noisy(int *p) { int unused = 3; unsigned u = 1; if (u < 0) *p = 1; return; *p = 2; }
#warning a word from the preprocessor
