// The entry point of every test executable, apart from the harness because some programs use only the latter.
#include "check.h"

int main(int argc, char** argv) { return check::run(argc, argv); }
