// Password hashing with scrypt from node:crypto, off the event loop. One hash needs 32 MiB and a lot of CPU time, so
// only a few run at a time and the queue is short. Otherwise, unauthenticated clients could exhaust memory. Owns this
// thread's queue.

import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { apiError } from '../shared/errors.js';

interface Cost {
  ln: number;
  r: number;
  p: number;
}

/**
 * Cost parameters for new hashes. They are as strong as OWASP's first recommendation for scrypt (N = 2^17, r = 8, p =
 * 1), but need only a quarter of its memory.
 */
const COST: Cost = { ln: 15, r: 8, p: 3 };
const HASH_BYTES = 32;
const SALT_BYTES = 16;
const AT_ONCE = 2;
const MAX_WAITING = 32;
/** Retry delay reported when the queue is full: about the time that a full queue takes to drain. */
const RETRY_MS = 5_000;

export const MIN_PASSWORD_CHARACTERS = 10;
export const MAX_PASSWORD_BYTES = 1_024;

let running = 0;
const line: (() => void)[] = [];

/** Returns the encoded hash `$scrypt$ln=15,r=8,p=3$salt$hash`. Throws ApiError 503 if the queue is full. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(password, salt, COST, HASH_BYTES);
  return `$scrypt$ln=${COST.ln},r=${COST.r},p=${COST.p}$${salt.toString('base64')}$${hash.toString('base64')}`;
}

/**
 * Whether the password matches an encoded hash. For null, which means that the user does not exist, it takes the same
 * time and returns false. Throws ApiError 503 if the queue is full.
 */
export async function verifyPassword(password: string, encoded: string | null): Promise<boolean> {
  const parsed = encoded === null ? null : parse(encoded);
  const { cost, salt, hash } = parsed ?? { cost: COST, salt: randomBytes(SALT_BYTES), hash: randomBytes(HASH_BYTES) };
  return timingSafeEqual(await derive(password, salt, cost, hash.length), hash) && parsed !== null;
}

/** Whether the hash uses different cost parameters than new hashes. */
export function isOutdated(encoded: string): boolean {
  const cost = parse(encoded)?.cost;
  return cost === undefined || cost.ln !== COST.ln || cost.r !== COST.r || cost.p !== COST.p;
}

function parse(encoded: string): { cost: Cost; salt: Buffer; hash: Buffer } | null {
  const [, ln, r, p, salt, hash] =
    /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([\w+/=]+)\$([\w+/=]+)$/.exec(encoded) ?? [];
  if (salt === undefined || hash === undefined) return null;
  return {
    cost: { ln: Number(ln), r: Number(r), p: Number(p) },
    salt: Buffer.from(salt, 'base64'),
    hash: Buffer.from(hash, 'base64'),
  };
}

async function derive(password: string, salt: Buffer, { ln, r, p }: Cost, bytes: number): Promise<Buffer> {
  await turn();
  try {
    const N = 2 ** ln;
    return await new Promise((resolve, reject) => {
      scrypt(password.normalize('NFKC'), salt, bytes, { N, r, p, maxmem: 128 * N * r * 2 }, (error, key) => {
        if (error === null) resolve(key);
        else reject(error);
      });
    });
  } finally {
    running--;
    line.shift()?.();
  }
}

function turn(): Promise<void> {
  if (running < AT_ONCE) {
    running++;
    return Promise.resolve();
  }
  if (line.length >= MAX_WAITING)
    throw apiError('capacity_exhausted', 'Too many sign-ins are in progress. Retry shortly.', null, {
      retryAfterMs: RETRY_MS,
    });
  return new Promise((resolve) =>
    line.push(() => {
      running++;
      resolve();
    }),
  );
}
