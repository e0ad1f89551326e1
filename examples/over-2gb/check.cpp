// check [--gpu] LIBRARY: loads it, runs its self-test, and with --gpu its kernels.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <cstdio>
#include <cstring>

int main(int argc, char **argv) {
  bool gpu = argc > 2 && std::strcmp(argv[1], "--gpu") == 0;
  int devices = 0;
  cudaError_t counted = cudaGetDeviceCount(&devices);  // So that the runtime is in the program, and a probe can call through.
  void *library = dlopen(argv[argc - 1], RTLD_NOW);
  if (!library) return std::printf("%s\n", dlerror()), 1;
  int (*self_test)() = reinterpret_cast<int (*)()>(dlsym(library, "self_test"));
  int wrong = self_test ? self_test() : -1;
  std::printf("self_test %s %d\n", wrong ? "WRONG" : "ok", wrong);
  if (gpu && (counted || !devices)) return std::printf("no GPU: %s\n", cudaGetErrorName(counted)), 1;
  for (const char *name : {"run_first", "run_rdc", "run_last"}) {
    if (!gpu) break;
    int (*run)() = reinterpret_cast<int (*)()>(dlsym(library, name));
    int result = run ? run() : -2;
    std::printf("%s %s %d\n", name, result ? "WRONG" : "ok", result);
    wrong |= result;
  }
  return wrong != 0;
}
