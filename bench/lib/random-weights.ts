// Random weights in each tensor encoding, written as blocks without quantizing anything: the quants are
// random bits, and the scales are chosen so that the decoded values have the standard deviation asked for.
// Every word is a function of (key, position), so a file does not depend on how it is cut into buffers.

export type WeightType = 'f32' | 'f16' | 'bf16' | 'q8_0' | 'q4_0' | 'q4_k' | 'q6_k';

// A 32-bit mix of a counter under a key: multiply and shift, after Chris Wellons's hash prospector. The key
// enters between the rounds, so streams of different keys are not shifted copies of each other.
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

// binary32 to binary16, to nearest. Scales of K-quants are often subnormal halves.
export function halfBits(value: number): number {
  const bits = floatBits(value), sign = (bits >>> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x477ff000) throw new RangeError(`${value} is too large for a half`);
  if (magnitude < 0x38800000) return sign | Math.round(Math.abs(value) * 2 ** 24);
  return sign | ((magnitude + 0xfff + ((magnitude >>> 13) & 1) - 0x38000000) >>> 13);
}

function bfloatBits(value: number): number {
  const bits = floatBits(value);
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

// `size` equally likely values of a standard normal variable: its quantiles, found by summing the density
// outwards from the middle in steps fine enough for noise (about 1e-4).
function normalQuantiles(size: number): Float64Array {
  const values = new Float64Array(size);
  const step = 1 / 4096;
  let x = 0, mass = 0;
  for (let i = 0; i < size / 2; i++) {
    const target = (i + 0.5) / size;
    while (mass < target && x < 6) {
      mass += step * Math.exp(-((x + step / 2) ** 2) / 2) / Math.sqrt(2 * Math.PI);
      x += step;
    }
    values[size / 2 + i] = x;
    values[size / 2 - 1 - i] = -x;
  }
  return values;
}
const QUANTILES = normalQuantiles(4096);

// Block scales vary over [0.5, 1.5) of their mean; the factor restores the root mean square.
const SCALE_STEPS = 256;
const SCALE_RMS = Math.sqrt(1 + 1 / 12);
const scaleFactor = (i: number) => (0.5 + (i + 0.5) / SCALE_STEPS) / SCALE_RMS;

// Root mean squares of the integer quants as filled below.
const RMS_TRIANGULAR_BYTE = Math.sqrt((128 ** 2 - 1) / 6);
const rmsUniform = (low: number, high: number) => {
  let sum = 0;
  for (let q = low; q <= high; q++) sum += q * q;
  return Math.sqrt(sum / (high - low + 1));
};

// Bytes -127..127, distributed as the sum of two dice: close enough to a bell, and never -128, which no
// quantizer writes. Four at a time: each byte of (a & 0x7f) + (b & 0x7f) is 0..254, then minus 127.
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

export const ENCODINGS: Record<WeightType, WeightEncoding> = {
  f32: { ggmlType: 0, blockValues: 1, blockBytes: 4 },
  f16: { ggmlType: 1, blockValues: 1, blockBytes: 2 },
  bf16: { ggmlType: 30, blockValues: 1, blockBytes: 2 },
  q8_0: { ggmlType: 8, blockValues: 32, blockBytes: 34 },
  q4_0: { ggmlType: 2, blockValues: 32, blockBytes: 18 },
  q4_k: { ggmlType: 12, blockValues: 256, blockBytes: 144 },
  q6_k: { ggmlType: 14, blockValues: 256, blockBytes: 210 },
};

// Fills `count` blocks from block `first` on. `first` is a multiple of 4, so that words never straddle calls.
type Fill = (bytes: Uint8Array, words: Uint32Array, first: number, count: number) => void;

const wordsOf = (bytes: number) => Math.ceil(bytes / 4);

// A function that writes blocks of `type` with values of mean `mean` (plain types only) and deviation `std`.
export function weightFiller(type: WeightType, key: number, std: number, mean = 0): Fill {
  const { blockBytes } = ENCODINGS[type];
  const scaleKey = mix(key, 0x9e3779b9);
  const halves = (rms: number) =>
    Uint16Array.from({ length: SCALE_STEPS }, (_, i) => halfBits((std / rms) * scaleFactor(i)));
  const putHalf = (bytes: Uint8Array, at: number, half: number) => {
    bytes[at] = half;
    bytes[at + 1] = half >>> 8;
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
    case 'q4_0': {
      // Quants are -8..7: a random sign of the scale keeps the mean at zero.
      const scales = halves(rmsUniform(-8, 7));
      return (bytes, words, first, count) => {
        fillBits(words, wordsOf(count * blockBytes), (first * blockBytes) / 4, key);
        for (let i = 0; i < count; i++) {
          const word = mix(first + i, scaleKey);
          putHalf(bytes, i * blockBytes, (scales[word & 255] ?? 0) | ((word >>> 16) & 0x8000));
        }
      };
    }
    case 'q4_k': {
      // value = d * scale * q - d_min * minimum, q in 0..15: with minimum = scale and d_min = 7.5 d the mean is
      // zero. Scales are 32..63.
      const rms = rmsUniform(32, 63) * Math.sqrt(rmsUniform(0, 15) ** 2 - 7.5 ** 2);
      const scales = halves(rms);
      const minima = Uint16Array.from({ length: SCALE_STEPS }, (_, i) => halfBits(((7.5 * std) / rms) * scaleFactor(i)));
      return (bytes, words, first, count) => {
        fillBits(words, wordsOf(count * blockBytes), (first * blockBytes) / 4, key);
        for (let i = 0; i < count; i++) {
          const at = i * blockBytes;
          const word = mix(first + i, scaleKey), choice = word & 255;
          putHalf(bytes, at, scales[choice] ?? 0);
          putHalf(bytes, at + 2, minima[choice] ?? 0);
          for (let j = 0; j < 4; j++) {
            // Scales j and j + 4 as 6-bit numbers: low bits of the second one in byte 8 + j, its top bits above
            // the first one; the same twice, for the minima.
            const low = 32 | ((word >>> (8 + 3 * j)) & 31), high = 32 | ((word >>> (20 - 3 * j)) & 31);
            bytes[at + 4 + j] = bytes[at + 8 + j] = low | ((high >>> 4) << 6);
            bytes[at + 12 + j] = (high & 15) * 17;
          }
        }
      };
    }
    case 'q6_k': {
      // value = d * scale * (q - 32), q in 0..63; scales +-(64..127), whose signs keep the mean at zero.
      const scales = halves(rmsUniform(-32, 31) * rmsUniform(64, 127));
      return (bytes, words, first, count) => {
        fillBits(words, wordsOf(count * blockBytes), (first * blockBytes) / 4, key);
        for (let i = 0; i < count; i++) {
          const at = i * blockBytes;
          for (let j = 192; j < 208; j++) {
            const byte = bytes[at + j] ?? 0;
            bytes[at + j] = byte & 128 ? 256 - (64 | (byte & 63)) : 64 | (byte & 63);
          }
          putHalf(bytes, at + 208, scales[mix(first + i, scaleKey) & 255] ?? 0);
        }
      };
    }
  }
}

// A stream's key from the file's seed and the tensor's place in it.
export const tensorKey = (seed: number, index: number) => mix(index + 1, mix(seed, 0x85ebca6b));
