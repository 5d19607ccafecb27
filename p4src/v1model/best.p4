// The members of the best band, by arithmetic on whole lane vectors. SPDX-License-Identifier: Apache-2.0
//
// Path band of a lane = clamp(local band + code, 0, 7), local band = 7 - local_bad. Adding 8 to it keeps
// every lane positive (rank = 8 + band; 0 to 22 in 8 bits), so no lane borrows from its neighbour, and
// "rank >= t" is bit 7 of rank + (128 - t). Three such comparisons find the best band, as a binary
// search. TNA twin: each member's band comes from its own register in a stage of its own, and a
// ternary table on the bands picks the set; there are no 128-bit adders there.
//
// `lenient` adds the members one band below the best. What a path is known for is some microseconds old:
// if all senders left it for one band less, they would all come back at once. So the slots share out the
// traffic, and bands take out of a turn only what is clearly worse.

control Best(in lanes_t bad, in lanes_t codes, in lanes_t live, in bool lenient,
             out lanes_t best, out bit<8> badness) {
    lanes_t biased = 0;
    lanes_t rank = 0;
    lanes_t up = 0;
    lanes_t half = 0;
    lanes_t quarter = 0;
    lanes_t one = 0;

    apply {
        biased = codes ^ 128w0x08080808080808080808080808080808;
        // Code 8 is "down": the lane's bias is 0, and only then does adding 127 leave bit 7 clear.
        up = (biased + 128w0x7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f) & live;
        rank = (128w0x07070707070707070707070707070707 - bad) + biased;

        half = (rank + 128w0x74747474747474747474747474747474) & up;         // band >= 4
        if (half != 0) {
            quarter = (rank + 128w0x72727272727272727272727272727272) & up;  // band >= 6
            if (quarter != 0) {
                one = (rank + 128w0x71717171717171717171717171717171) & up;  // band 7
                if (one != 0) { best = one; badness = 0; } else { best = quarter; badness = 1; }
            } else {
                one = (rank + 128w0x73737373737373737373737373737373) & up;  // band >= 5
                if (one != 0) { best = one; badness = 2; } else { best = half; badness = 3; }
            }
        } else {
            quarter = (rank + 128w0x76767676767676767676767676767676) & up;  // band >= 2
            if (quarter != 0) {
                one = (rank + 128w0x75757575757575757575757575757575) & up;  // band >= 3
                if (one != 0) { best = one; badness = 4; } else { best = quarter; badness = 5; }
            } else {
                one = (rank + 128w0x77777777777777777777777777777777) & up;  // band >= 1
                if (one != 0) { best = one; badness = 6; } else { best = up; badness = 7; }
            }
        }
        if (up == 0) {
            badness = 8;
        } else if (lenient) {
            // One band below the best as well: rank >= 14 - badness. Below band 1 there is only band 0,
            // where the clamp holds every lower rank too.
            if (badness >= 6) {
                best = up;
            } else {
                best = (rank + (lanes_t)badness * 128w0x01010101010101010101010101010101
                        + 128w0x72727272727272727272727272727272) & up;
            }
        }
    }
}
