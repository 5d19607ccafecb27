"""Native code for P4 programs: the IR as LLVM functions over packet rows."""
