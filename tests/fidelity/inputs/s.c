int s(void) { return 7; }
