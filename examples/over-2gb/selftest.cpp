// Host code of every kind whose references must reach over the device code: exceptions, static data, calls through the PLT,
// thread-local data, a large .bss.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef FILLERS
#include FILLERS
#endif

static std::string greeting = "hello";
static int counts[1 << 16];
int exported = 5;
static thread_local int calls = 41;
static thread_local char blank[100];
static const int primes[] = {2, 3, 5, 7};
static int filled[4000] = {1};                                            // .data
extern const char *const names[2000];                                     // .data.rel.ro
const char *const names[2000] = {"a", "b"};

__attribute__((noinline)) int through_the_plt(int x) { return x + exported; }

__attribute__((noinline)) static void throws(int x) {
  if (x > 0) throw std::runtime_error(greeting);
}

static int by_value(const void *a, const void *b) { return *static_cast<const int *>(a) - *static_cast<const int *>(b); }

// 0 when everything is right, otherwise the number of what is wrong.
extern "C" int self_test() {
  ++calls;
  for (char &c : blank)
    if (c++) return 6;
  try {
    throws(1);
    return 1;
  } catch (const std::exception &e) {
    if (std::string(e.what()) != "hello") return 2;
  }
  for (int i = 0; i < 1 << 16; ++i) counts[i] = (1 << 16) - i;
  std::qsort(counts, 1 << 16, sizeof *counts, by_value);
  if (counts[0] != 1 || counts[65535] != 65536) return 3;
  if (through_the_plt(primes[3]) != 12) return 4;
  std::vector<std::string> words{"b", "a"};
  std::sort(words.begin(), words.end());
  for (int &f : filled) f = 3;
  const char *const *volatile first = names;
  if (words[0] != first[0] || filled[3999] != 3 || calls != 42) return 5;
#ifdef FILLERS
  for (const char *filler : fillers)
    if (*filler != 0) return 7;
#endif
  return 0;
}
