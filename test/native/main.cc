// The entry point of every test executable. It is separate from the harness because some programs use only the harness.
#include "check.h"

int main(int argc, char** argv) { return check::run(argc, argv); }
