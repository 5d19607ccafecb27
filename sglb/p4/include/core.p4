/* Core library of P4_16 (specification 1.2.5, appendix "P4 core library"). */

#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,        // extract, lookahead or advance ran past the packet's end
    NoMatch,               // no case of a select matched
    StackOutOfBounds,      // a header stack was used outside its size
    HeaderTooShort,        // a varbit field was given more bits than it holds
    ParserTimeout,         // the parser ran for too long
    ParserInvalidArgument  // a parser operation was given a value that the target cannot take
}

extern packet_in {
    // Fill a header and move past it; the second form also sizes its one varbit field.
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Read without moving.
    T lookahead<T>();
    // Move without reading.
    void advance(in bit<32> sizeInBits);
    // Length of the packet in bytes.
    bit<32> length();
}

extern packet_out {
    // Append a header, stack, union or struct of them; what is invalid adds nothing.
    void emit<T>(in T hdr);
}

// In a parser: go on when `check` holds, else set the error and go to `reject`.
extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

// Checked while compiling; the value is `true`, so that a constant can hold it.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
