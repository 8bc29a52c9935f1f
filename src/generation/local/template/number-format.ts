// Formats numbers in the notations that Python's two kinds of format strings and round() share. No side effects.

/** Maximum number of digits after the point. A higher precision is refused. */
export const MAX_PRECISION = 100;
/** Wider fields are refused. */
export const MAX_WIDTH = 1 << 16;

/**
 * Returns |value| * 10^scale, computed exactly and rounded to an integer; ties round to even. `value` must be finite.
 */
export function scaled(value: number, scale: number): bigint {
  const { mantissa, exponent } = partsOf(Math.abs(value));
  let numerator = mantissa;
  let denominator = 1n;
  if (exponent >= 0) numerator <<= BigInt(exponent);
  else denominator <<= BigInt(-exponent);
  if (scale >= 0) numerator *= 10n ** BigInt(scale);
  else denominator *= 10n ** BigInt(-scale);
  const whole = numerator / denominator;
  const twice = 2n * (numerator % denominator);
  return twice > denominator || (twice === denominator && whole % 2n === 1n) ? whole + 1n : whole;
}

/** A number as mantissa * 2^exponent. */
function partsOf(value: number): { mantissa: bigint; exponent: number } {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const high = bits.getUint32(0);
  const biased = (high >>> 20) & 0x7ff;
  const fraction = (BigInt(high & 0xf_ffff) << 32n) | BigInt(bits.getUint32(4));
  return { mantissa: biased === 0 ? fraction : fraction | (1n << 52n), exponent: Math.max(1, biased) - 1_075 };
}

/** Fixed-point notation with `precision` digits after the point. */
export function fixed(value: number, precision: number): string {
  if (!Number.isFinite(value)) return special(value);
  const digits = scaled(value, precision)
    .toString()
    .padStart(precision + 1, '0');
  const point = digits.length - precision;
  return signOf(value) + digits.slice(0, point) + (precision === 0 ? '' : `.${digits.slice(point)}`);
}

export function exponential(value: number, precision: number): string {
  if (!Number.isFinite(value)) return special(value);
  const { digits, exponent } = significant(value, precision + 1);
  const fraction = precision === 0 ? '' : `.${digits.slice(1)}`;
  const power = String(Math.abs(exponent)).padStart(2, '0');
  return `${signOf(value)}${digits[0]}${fraction}e${exponent < 0 ? '-' : '+'}${power}`;
}

/** Returns the first `count` significant digits of a number, and the power of ten of the first digit. */
function significant(value: number, count: number): { digits: string; exponent: number } {
  if (value === 0) return { digits: '0'.repeat(count), exponent: 0 };
  let exponent = Number(value.toExponential().split('e')[1]);
  let digits = scaled(value, count - 1 - exponent).toString();
  if (digits.length > count) digits = scaled(value, count - 1 - ++exponent).toString();
  return { digits, exponent };
}

/**
 * Fixed-point notation, or exponent notation for very large and very small numbers. Trailing zeros are removed unless
 * `alternate` is set. `shorter`: exponent notation starts one digit earlier, because ".0" is appended to fixed-point
 * notation.
 */
export function general(value: number, precision: number, { alternate = false, shorter = false } = {}): string {
  if (!Number.isFinite(value)) return special(value);
  const count = Math.max(1, precision);
  const { exponent } = significant(value, count);
  const text =
    exponent < -4 || exponent >= count - Number(shorter)
      ? exponential(value, count - 1)
      : fixed(value, count - 1 - exponent);
  return alternate ? text : withoutZeros(text);
}

function withoutZeros(text: string): string {
  const [digits, exponent] = text.split('e') as [string, string?];
  const short = digits.includes('.') ? digits.replace(/0+$/, '').replace(/\.$/, '') : digits;
  return exponent === undefined ? short : `${short}e${exponent}`;
}

function signOf(value: number): string {
  return value < 0 || Object.is(value, -0) ? '-' : '';
}

function special(value: number): string {
  return Number.isNaN(value) ? 'nan' : value < 0 ? '-inf' : 'inf';
}

/** Inserts separators between groups of digits, as in 1,234,567. */
export function grouped(digits: string, separator: string, size = 3): string {
  const groups: string[] = [];
  for (let end = digits.length; end > 0; end -= size) groups.unshift(digits.slice(Math.max(0, end - size), end));
  return groups.join(separator);
}
