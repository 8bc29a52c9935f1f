// What the clocks that tests turn themselves begin with: test/admission/clocks.test.ts runs them with others.

/** Nanoseconds: MONOLITH_TEST_CLOCK_NS, else `usual`. */
export const clockStart = (usual: bigint): bigint => BigInt(process.env['MONOLITH_TEST_CLOCK_NS'] ?? usual);
