// Start value of the clocks that tests control. test/admission/clocks.test.ts runs the tests with other start values.

/** In nanoseconds: MONOLITH_TEST_CLOCK_NS if set, else `usual`. */
export const clockStart = (usual: bigint): bigint => BigInt(process.env['MONOLITH_TEST_CLOCK_NS'] ?? usual);
