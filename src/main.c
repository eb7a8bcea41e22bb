/* main.c: the program; all it does is in src/cli. */
int main(void) { return 2; }
