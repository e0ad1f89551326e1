// Preloaded, it writes down what registers with the CUDA runtime, and lets it through. No GPU is needed.
//   PROBE_LOG: the file to append to. One line each: `fatbin IMAGE`, `kernel IMAGE NAME`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note(const char *what, const void *where, const char *name) {
  const char *path = getenv("PROBE_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (!log) return;
  Dl_info info;
  const char *image = dladdr(where, &info) && info.dli_fname ? info.dli_fname : "?";
  const char *slash = strrchr(image, '/');
  fprintf(log, "%s %s%s%s\n", what, slash ? slash + 1 : image, name ? " " : "", name ? name : "");
  fclose(log);
}

void **__cudaRegisterFatBinary(void *wrapper) {
  note("fatbin", wrapper, NULL);
  void **(*next)(void *) = (void **(*)(void *))dlsym(RTLD_NEXT, "__cudaRegisterFatBinary");
  return next(wrapper);
}

void __cudaUnregisterFatBinary(void **handle) {
  void (*next)(void **) = (void (*)(void **))dlsym(RTLD_NEXT, "__cudaUnregisterFatBinary");
  next(handle);
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, void *tid, void *bid, void *bdim,
                            void *gdim, int *size) {
  note("kernel", host, name);
  typedef void (*fn)(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
  ((fn)dlsym(RTLD_NEXT, "__cudaRegisterFunction"))(handle, host, device, name, limit, tid, bid, bdim, gdim, size);
}
