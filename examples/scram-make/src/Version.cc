// Host code of the core library, so that g++ compiles something, too.
extern "C" const char *core_version() { return PROJECT; }
