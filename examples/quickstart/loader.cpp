// loader [--local] [--now-run] LIBRARY... : dlopens the libraries in this order. `run:SYMBOL` calls an `extern "C" int SYMBOL()`
// of what is loaded and prints its result; `close:LIBRARY` closes one. It is linked against the shared CUDA runtime, so that a
// preloaded probe can call through.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

int main(int argc, char **argv) {
  int devices = 0;
  bool gpu = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  int mode = RTLD_NOW | RTLD_GLOBAL;
  std::map<std::string, void *> loaded;
  std::string order;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--local") {
      mode = RTLD_NOW | RTLD_LOCAL;
    } else if (word.rfind("close:", 0) == 0) {
      dlclose(loaded[word.substr(6)]);
    } else if (word.rfind("run:", 0) == 0) {
      if (!gpu) continue;
      void *f = nullptr;
      for (auto &l : loaded)
        if (!f) f = dlsym(l.second, word.c_str() + 4);
      if (!f) f = dlsym(RTLD_DEFAULT, word.c_str() + 4);
      int result = f ? reinterpret_cast<int (*)()>(f)() : -99;
      std::printf("%s %s\n", word.c_str() + 4, result == 0 ? "ok" : result > 0 ? cudaGetErrorName(static_cast<cudaError_t>(result)) : "wrong value");
    } else {
      void *handle = dlopen(word.c_str(), mode);
      if (!handle) {
        std::fprintf(stderr, "loader: %s\n", dlerror());
        return 1;
      }
      loaded[word] = handle;
    }
  }
  if (gpu) std::printf("gpu\n");
  return 0;
}
