#include <cstdio>
int main(int argc, char **argv) {
  std::printf("%d %s\n", argc, argc > 1 ? argv[1] : "-");
  return argc > 2 ? 3 : 0;
}
