// Random weights in each tensor encoding, written directly as blocks without quantizing anything. The quants are random
// bits, and the scales are chosen so that the dequantized values have the requested standard deviation. Every word is a
// function of (key, position), so the file does not depend on how it is split into buffers.

export const WEIGHT_TYPES = [
  'f32',
  'f16',
  'bf16',
  'q8_0',
  'q4_0',
  'q4_1',
  'q5_0',
  'q5_1',
  'iq4_nl',
  'mxfp4',
  'q2_k',
  'q3_k',
  'q4_k',
  'q5_k',
  'q6_k',
  'iq4_xs',
  'iq1_s',
  'iq1_m',
  'iq2_xxs',
  'iq2_xs',
  'iq2_s',
  'iq3_xxs',
  'iq3_s',
  'tq1_0',
  'tq2_0',
  'nvfp4',
] as const;
export type WeightType = (typeof WEIGHT_TYPES)[number];

// A keyed 32-bit hash of a counter: multiply and xorshift, after Chris Wellons's hash prospector. The key is mixed in
// between the rounds, so the streams of two keys are not shifted copies of each other.
export function mix(counter: number, key: number): number {
  let x = Math.imul(counter ^ (counter >>> 16), 0x21f0aaad) ^ key;
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

const scratch = new DataView(new ArrayBuffer(4));

function floatBits(value: number): number {
  scratch.setFloat32(0, value);
  return scratch.getUint32(0);
}

// Converts binary32 to binary16, rounding to nearest. Scales of K-quants are often subnormal in binary16.
export function halfBits(value: number): number {
  const bits = floatBits(value),
    sign = (bits >>> 16) & 0x8000,
    magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477ff000) throw new RangeError(`${value} is too large for a half`);
  if (magnitude < 0x38800000) return sign | Math.round(Math.abs(value) * 2 ** 24);
  return sign | ((magnitude + 0xfff + ((magnitude >>> 13) & 1) - 0x38000000) >>> 13);
}

function bfloatBits(value: number): number {
  const bits = floatBits(value);
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

// Returns `size` equally likely values of a standard normal variable, that is, its quantiles. They are computed by
// summing the density outward from the middle, in steps fine enough for noise (about 1e-4).
function normalQuantiles(size: number): Float64Array {
  const values = new Float64Array(size);
  const step = 1 / 4096;
  let x = 0,
    mass = 0;
  for (let i = 0; i < size / 2; i++) {
    const target = (i + 0.5) / size;
    while (mass < target && x < 6) {
      mass += (step * Math.exp(-((x + step / 2) ** 2) / 2)) / Math.sqrt(2 * Math.PI);
      x += step;
    }
    values[size / 2 + i] = x;
    values[size / 2 - 1 - i] = -x;
  }
  return values;
}
const QUANTILES = normalQuantiles(4096);

// Block scales vary over [0.5, 1.5) times their mean. Dividing by SCALE_RMS restores the root mean square.
const SCALE_STEPS = 256;
const SCALE_RMS = Math.sqrt(1 + 1 / 12);
const scaleFactor = (i: number) => (0.5 + (i + 0.5) / SCALE_STEPS) / SCALE_RMS;

// Root mean squares of the integer quants as filled below.
const RMS_TRIANGULAR_BYTE = Math.sqrt((128 ** 2 - 1) / 6);
const rmsOf = (values: readonly number[]) => Math.sqrt(values.reduce((sum, q) => sum + q * q, 0) / values.length);
const range = (low: number, high: number) => Array.from({ length: high - low + 1 }, (_, i) => low + i);
const rmsUniform = (low: number, high: number) => rmsOf(range(low, high));
// The root mean square of the integers from 0 to `largest` after subtracting their mean.
const rmsCentered = (largest: number) => Math.sqrt(rmsUniform(0, largest) ** 2 - (largest / 2) ** 2);

// The levels defined in native/formats/gguf/tensor_type.h.
const IQ4_LEVELS = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
const MXFP4_LEVELS = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
// The six-bit scales in -32..-17 and 16..31, whose two upper bits are equal.
const SIX_BIT_SCALES = [...range(-32, -17), ...range(16, 31)];
const equalPairs = (byte: number) => (byte & 0x55) * 3;

// For each i-quant type, the offset of d in a block and, for d = 1, the root mean square of the values that random bits
// represent, measured by dequantizing a million values.
const LATTICES = {
  iq1_s: { d: 0, rms: 7.16 },
  iq1_m: { d: 48, rms: 7.19 },
  iq2_xxs: { d: 0, rms: 53.5 },
  iq2_xs: { d: 0, rms: 55.8 },
  iq2_s: { d: 0, rms: 56.4 },
  iq3_xxs: { d: 0, rms: 142 },
  iq3_s: { d: 0, rms: 141 },
  tq1_0: { d: 52, rms: 0.817 },
  tq2_0: { d: 64, rms: 0.707 },
} as const;

// The values of the E4M3 bytes 0 to 126 (4 exponent bits and 3 mantissa bits). e4m3Bits() returns the byte with the
// nearest value.
const E4M3 = range(0, 126).map((byte) => (byte < 8 ? byte : 8 + (byte & 7)) * 2 ** (Math.max(byte >> 3, 1) - 10));
const e4m3Bits = (value: number) =>
  E4M3.reduce((best, at, byte) => (Math.abs(at - value) < Math.abs((E4M3[best] ?? 0) - value) ? byte : best), 0);

// Bytes in -127..127, distributed as the sum of two uniform values: close enough to a normal distribution, and never
// -128, which no quantizer writes. Computed four at a time: each byte of (a & 0x7f) + (b & 0x7f) is in 0..254, minus
// 127.
function fillTriangularBytes(words: Uint32Array, count: number, first: number, key: number): void {
  const other = mix(key, 0x5bd1e995);
  for (let i = 0; i < count; i++) {
    const sum = ((mix(first + i, key) & 0x7f7f7f7f) + (mix(first + i, other) & 0x7f7f7f7f)) | 0;
    words[i] = ((sum & 0x7f7f7f7f) + 0x01010101) ^ ((sum ^ 0x80808080) & 0x80808080);
  }
}

function fillBits(words: Uint32Array, count: number, first: number, key: number): void {
  for (let i = 0; i < count; i++) words[i] = mix(first + i, key);
}

export interface WeightEncoding {
  readonly ggmlType: number;
  readonly blockValues: number;
  readonly blockBytes: number;
}

/** The weight encodings, plus `i32` for integer tables, which are not used in matmuls. */
export const ENCODINGS: Record<WeightType | 'i32', WeightEncoding> = {
  i32: { ggmlType: 26, blockValues: 1, blockBytes: 4 },
  f32: { ggmlType: 0, blockValues: 1, blockBytes: 4 },
  f16: { ggmlType: 1, blockValues: 1, blockBytes: 2 },
  bf16: { ggmlType: 30, blockValues: 1, blockBytes: 2 },
  q8_0: { ggmlType: 8, blockValues: 32, blockBytes: 34 },
  q4_0: { ggmlType: 2, blockValues: 32, blockBytes: 18 },
  q4_1: { ggmlType: 3, blockValues: 32, blockBytes: 20 },
  q5_0: { ggmlType: 6, blockValues: 32, blockBytes: 22 },
  q5_1: { ggmlType: 7, blockValues: 32, blockBytes: 24 },
  iq4_nl: { ggmlType: 20, blockValues: 32, blockBytes: 18 },
  mxfp4: { ggmlType: 39, blockValues: 32, blockBytes: 17 },
  q2_k: { ggmlType: 10, blockValues: 256, blockBytes: 84 },
  q3_k: { ggmlType: 11, blockValues: 256, blockBytes: 110 },
  q4_k: { ggmlType: 12, blockValues: 256, blockBytes: 144 },
  q5_k: { ggmlType: 13, blockValues: 256, blockBytes: 176 },
  q6_k: { ggmlType: 14, blockValues: 256, blockBytes: 210 },
  iq4_xs: { ggmlType: 23, blockValues: 256, blockBytes: 136 },
  iq1_s: { ggmlType: 19, blockValues: 256, blockBytes: 50 },
  iq1_m: { ggmlType: 29, blockValues: 256, blockBytes: 56 },
  iq2_xxs: { ggmlType: 16, blockValues: 256, blockBytes: 66 },
  iq2_xs: { ggmlType: 17, blockValues: 256, blockBytes: 74 },
  iq2_s: { ggmlType: 22, blockValues: 256, blockBytes: 82 },
  iq3_xxs: { ggmlType: 18, blockValues: 256, blockBytes: 98 },
  iq3_s: { ggmlType: 21, blockValues: 256, blockBytes: 110 },
  tq1_0: { ggmlType: 34, blockValues: 256, blockBytes: 54 },
  tq2_0: { ggmlType: 35, blockValues: 256, blockBytes: 66 },
  nvfp4: { ggmlType: 40, blockValues: 64, blockBytes: 36 },
};

// Fills `count` blocks starting with block `first`, which is a multiple of 4, so that no word is shared by two calls.
type Fill = (bytes: Uint8Array, words: Uint32Array, first: number, count: number) => void;

const wordsOf = (bytes: number) => Math.ceil(bytes / 4);

/**
 * Fills a table with integers from 0 to `below` - 1. The `columns` integers in a row are distinct if `below` is large
 * enough.
 */
export function tableFiller(key: number, columns: number, below: number): Fill {
  return (_, words, first, count) => {
    for (let i = 0; i < count; i++)
      words[i] = ((mix(Math.floor((first + i) / columns), key) % below) + ((first + i) % columns)) % below;
  };
}

// Returns a function that writes blocks of `type` whose values have the standard deviation `std` and, for unquantized
// types only, the mean `mean`.
export function weightFiller(type: WeightType, key: number, std: number, mean = 0): Fill {
  const { blockBytes } = ENCODINGS[type];
  const scaleKey = mix(key, 0x9e3779b9);
  const halves = (rms: number) =>
    Uint16Array.from({ length: SCALE_STEPS }, (_, i) => halfBits((std / rms) * scaleFactor(i)));
  const putHalf = (bytes: Uint8Array, at: number, half: number) => {
    bytes[at] = half;
    bytes[at + 1] = half >>> 8;
  };
  // Fills everything with random bits, then calls `finish` for each block, which starts at byte `at`. `word` is a
  // random number for the block.
  const blocks =
    (finish: (bytes: Uint8Array, at: number, word: number) => void): Fill =>
    (bytes, words, first, count) => {
      fillBits(words, wordsOf(count * blockBytes), (first * blockBytes) / 4, key);
      for (let i = 0; i < count; i++) finish(bytes, i * blockBytes, mix(first + i, scaleKey));
    };
  switch (type) {
    case 'f32': {
      const table = Uint32Array.from(QUANTILES, (q) => floatBits(mean + std * q));
      return (_, words, first, count) => {
        for (let i = 0; i < count; i++) words[i] = table[mix(first + i, key) & 4095] ?? 0;
      };
    }
    case 'f16':
    case 'bf16': {
      const bits = type === 'f16' ? halfBits : bfloatBits;
      const table = Uint16Array.from(QUANTILES, (q) => bits(mean + std * q));
      return (_, words, first, count) => {
        for (let i = 0; i < wordsOf(2 * count); i++) {
          const word = mix(first / 2 + i, key);
          words[i] = (table[word & 4095] ?? 0) | ((table[(word >>> 12) & 4095] ?? 0) << 16);
        }
      };
    }
    case 'q8_0': {
      const scales = halves(RMS_TRIANGULAR_BYTE);
      return (bytes, words, first, count) => {
        fillTriangularBytes(words, wordsOf(count * blockBytes), (first * blockBytes) / 4, key);
        for (let i = 0; i < count; i++) putHalf(bytes, i * blockBytes, scales[mix(first + i, scaleKey) & 255] ?? 0);
      };
    }
    case 'q4_0':
    case 'q5_0':
    case 'iq4_nl': {
      // Neither quants in -8..7 nor these levels have a mean of zero. Giving the scale a random sign corrects that.
      const scales = halves(
        type === 'iq4_nl' ? rmsOf(IQ4_LEVELS) : type === 'q4_0' ? rmsUniform(-8, 7) : rmsUniform(-16, 15),
      );
      return blocks((bytes, at, word) => putHalf(bytes, at, (scales[word & 255] ?? 0) | ((word >>> 16) & 0x8000)));
    }
    case 'q4_1':
    case 'q5_1': {
      // value = d * q + m: the mean is zero with m = -d * largest / 2.
      const largest = type === 'q4_1' ? 15 : 31,
        rms = rmsCentered(largest);
      const scales = halves(rms),
        minima = halves((2 * rms) / largest);
      return blocks((bytes, at, word) => {
        putHalf(bytes, at, scales[word & 255] ?? 0);
        putHalf(bytes, at + 2, (minima[word & 255] ?? 0) | 0x8000);
      });
    }
    case 'mxfp4': {
      // Scales are powers of two: the next one below or above the wanted scale, chosen with a probability that gives
      // the correct mean square.
      const step = std / rmsOf(MXFP4_LEVELS),
        exponent = Math.floor(Math.log2(step));
      const above = ((step / 2 ** exponent) ** 2 - 1) / 3;
      return blocks((bytes, at, word) => {
        bytes[at] = exponent + 128 + (word / 2 ** 32 < above ? 1 : 0);
      });
    }
    case 'q2_k': {
      // value = d * scale * q - d_min * minimum, q in 0..3. With minimum = scale and d_min = 1.5 d, the mean is zero.
      // Scales are in 8..15.
      const rms = rmsUniform(8, 15) * rmsCentered(3);
      const scales = halves(rms),
        minima = halves(rms / 1.5);
      return blocks((bytes, at, word) => {
        for (let j = at; j < at + 16; j++) bytes[j] = (8 | ((bytes[j] ?? 0) & 7)) * 17;
        putHalf(bytes, at + 80, scales[word & 255] ?? 0);
        putHalf(bytes, at + 82, minima[word & 255] ?? 0);
      });
    }
    case 'q3_k': {
      // value = d * scale * (q - 4), q in 0..7. Random signs of the scales keep the mean at zero.
      const scales = halves(rmsOf(SIX_BIT_SCALES) * rmsUniform(-4, 3));
      return blocks((bytes, at, word) => {
        for (let j = at + 104; j < at + 108; j++) bytes[j] = equalPairs(bytes[j] ?? 0);
        putHalf(bytes, at + 108, scales[word & 255] ?? 0);
      });
    }
    case 'iq4_xs': {
      const scales = halves(rmsOf(SIX_BIT_SCALES) * rmsOf(IQ4_LEVELS));
      return blocks((bytes, at, word) => {
        putHalf(bytes, at, scales[word & 255] ?? 0);
        bytes[at + 2] = equalPairs(bytes[at + 2] ?? 0);
        bytes[at + 3] = equalPairs(bytes[at + 3] ?? 0);
      });
    }
    // Codebook indices and ternary digits are random bits too.
    case 'iq1_s':
    case 'iq2_xxs':
    case 'iq2_xs':
    case 'iq2_s':
    case 'iq3_xxs':
    case 'iq3_s':
    case 'tq1_0': {
      const { d, rms } = LATTICES[type],
        scales = halves(rms);
      return blocks((bytes, at, word) => putHalf(bytes, at + d, scales[word & 255] ?? 0));
    }
    case 'tq2_0': {
      // Each pair of bits is 0, 1 or 2. The fourth value, which quantizers do not write, is replaced by 0.
      const scales = halves(LATTICES.tq2_0.rms);
      return blocks((bytes, at, word) => {
        for (let j = at; j < at + 64; j++) {
          const byte = bytes[j] ?? 0;
          bytes[j] = byte & ~((byte & (byte >>> 1) & 0x55) << 1);
        }
        putHalf(bytes, at + 64, scales[word & 255] ?? 0);
      });
    }
    case 'iq1_m': {
      // d is stored in the upper nibbles of four words.
      const scales = halves(LATTICES.iq1_m.rms);
      return blocks((bytes, at, word) => {
        const half = scales[word & 255] ?? 0;
        for (let j = 0; j < 4; j++)
          bytes[at + 49 + 2 * j] = ((bytes[at + 49 + 2 * j] ?? 0) & 15) | (((half >>> (4 * j)) & 15) << 4);
      });
    }
    case 'nvfp4': {
      // The levels are stored doubled.
      const scales = Uint8Array.from({ length: SCALE_STEPS }, (_, i) =>
        e4m3Bits(((2 * std) / rmsOf(MXFP4_LEVELS)) * scaleFactor(i)),
      );
      return blocks((bytes, at) => {
        for (let j = at; j < at + 4; j++) bytes[j] = scales[bytes[j] ?? 0] ?? 0;
      });
    }
    case 'q4_k':
    case 'q5_k': {
      // value = d * scale * q - d_min * minimum. With minimum = scale and d_min = d * largest / 2, the mean is zero.
      // Scales are in 32..63.
      const largest = type === 'q4_k' ? 15 : 31,
        rms = rmsUniform(32, 63) * rmsCentered(largest);
      const scales = halves(rms),
        minima = halves((2 * rms) / largest);
      return blocks((bytes, at, word) => {
        const choice = word & 255;
        putHalf(bytes, at, scales[choice] ?? 0);
        putHalf(bytes, at + 2, minima[choice] ?? 0);
        for (let j = 0; j < 4; j++) {
          // Scales j and j + 4 are 6-bit numbers. The low bits of scale j + 4 are in byte 8 + j, and its top bits are
          // stored above the bits of scale j. The minima are stored the same way.
          const low = 32 | ((word >>> (8 + 3 * j)) & 31),
            high = 32 | ((word >>> (20 - 3 * j)) & 31);
          bytes[at + 4 + j] = bytes[at + 8 + j] = low | ((high >>> 4) << 6);
          bytes[at + 12 + j] = (high & 15) * 17;
        }
      });
    }
    case 'q6_k': {
      // value = d * scale * (q - 32), q in 0..63. Scales are ±(64..127); their signs keep the mean at zero.
      const scales = halves(rmsUniform(-32, 31) * rmsUniform(64, 127));
      return blocks((bytes, at, word) => {
        for (let j = at + 192; j < at + 208; j++) {
          const byte = bytes[j] ?? 0;
          bytes[j] = byte & 128 ? 256 - (64 | (byte & 63)) : 64 | (byte & 63);
        }
        putHalf(bytes, at + 208, scales[word & 255] ?? 0);
      });
    }
  }
}

// Derives a tensor's key from the file's seed and the tensor's index in the file.
export const tensorKey = (seed: number, index: number) => mix(index + 1, mix(seed, 0x85ebca6b));
