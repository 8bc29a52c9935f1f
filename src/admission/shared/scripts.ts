// The Lua scripts that run in Redis, one atomic script per operation. Requires Redis 7 or Valkey 7.2, or later. No
// commands other than these scripts are used.
//
//   P:b:<record>    hash     r, t: times when the request and token buckets will be full; m: mean duration in ms
//   P:c:<record>    sorted   leases of unfinished requests, one member per choice, scored by expiry time
//   P:m:<record>    hash     tokens of a month: base (stored usage when counting started) and used since then
//   P:p             sorted   the live processes, scored by expiry time
//
// <record> is the hash from record-key.ts, so no names are stored. All times are fractional microseconds since the
// start of 2026 by the server's clock, which are small enough for a double to represent parts of a microsecond. A
// bucket's time has the meaning described in counters.ts, but in a different unit. Every key expires: buckets ten
// minutes after they are full, the others shortly after their contents.
import { recordKey } from '../record-key.js';

/** The names of the Redis keys. */
export class SharedKeys {
  readonly processes: string;

  constructor(private readonly prefix: string) {
    this.processes = `${prefix}:p`;
  }

  bucket(record: Int32Array): string {
    return `${this.prefix}:b:${hex(record)}`;
  }

  leases(record: Int32Array): string {
    return `${this.prefix}:c:${hex(record)}`;
  }

  /** `month` is a number such as 202611. */
  month(organizationId: string, month: number): string {
    return `${this.prefix}:m:${hex(recordKey('month', organizationId))}:${month}`;
  }
}

function hex(record: Int32Array): string {
  let text = '';
  for (const word of record) text += (word >>> 0).toString(16).padStart(8, '0');
  return text;
}

/** Common prologue of all scripts. Numbers are formatted explicitly, because Lua's default has only 14 digits. */
const HEAD = `
local t = redis.call('TIME')
local now = (tonumber(t[1]) - 1767225600) * 1000000 + tonumber(t[2])
local MINUTE = 60000000
local function text(x) return string.format('%.3f', x) end
local function cost(amount, limit) if amount == limit then return MINUTE end return amount / limit * MINUTE end
local function keep(key, r, t, m)
  redis.call('HSET', key, 'r', text(r), 't', text(t), 'm', m)
  redis.call('PEXPIRE', key, math.ceil((math.max(r, t) - now) / 1000) + 600000)
end
local function bucket(key)
  local b = redis.call('HMGET', key, 'r', 't', 'm')
  return math.max(tonumber(b[1]) or 0, now), math.max(tonumber(b[2]) or 0, now), tonumber(b[3]) or 0
end
local function unfinished(key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now))
  return redis.call('ZCARD', key)
end
local function hold(key, id, n, lease)
  local till = text(now + lease * 1000)
  for choice = 1, n do redis.call('ZADD', key, till, id .. '.' .. choice) end
  redis.call('PEXPIRE', key, lease + 1000)
end
`;

/**
 * Reserves a request. Keys: processes, month, then the bucket and leases of each limit scope. Arguments: ID, n, lease
 * in ms, tokens wanted, the prompt's tokens or -1 for an estimate, cap or -1, then each scope's limits (concurrency,
 * rpm, tpm; -1 = off). Returns the verdict, the scope (starting at 1), the number of processes, the month's tokens,
 * then for each scope the times in µs until its buckets are full, its count and its mean duration. If the reservation
 * was made, the values include it.
 */
const RESERVE = `${HEAD}
local id, n, lease, wanted, prompt, cap = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local gates = (#ARGV - 6) / 3
local places, rpm, tpm, r, t, m, c = {}, {}, {}, {}, {}, {}, {}
for g = 1, gates do
  places[g], rpm[g], tpm[g] = tonumber(ARGV[3 * g + 4]), tonumber(ARGV[3 * g + 5]), tonumber(ARGV[3 * g + 6])
  r[g], t[g], m[g] = bucket(KEYS[2 * g + 1])
  c[g] = unfinished(KEYS[2 * g + 2])
end
local used = -1
local function refused()
  if cap >= 0 then
    local month = redis.call('HMGET', KEYS[2], 'base', 'used')
    if not month[1] then return 'month', 0 end
    used = tonumber(month[1]) + (tonumber(month[2]) or 0)
    if used >= cap then return 'cap', 0 end
  end
  for g = 1, gates do if places[g] >= 0 and c[g] + n > places[g] then return 'places', g end end
  for g = 1, gates do if rpm[g] >= 0 and r[g] + cost(1, rpm[g]) - now > MINUTE + 1 then return 'rpm', g end end
  for g = 1, gates do
    if tpm[g] >= 0 then
      if prompt > tpm[g] then return 'prompt', g end
      if t[g] + cost(math.min(wanted, tpm[g]), tpm[g]) - now > MINUTE + 1 then return 'tpm', g end
    end
  end
  return nil, 0
end
local verdict, which = refused()
if not verdict then
  for g = 1, gates do
    if rpm[g] >= 0 then r[g] = r[g] + cost(1, rpm[g]) end
    if tpm[g] >= 0 then t[g] = t[g] + cost(math.min(wanted, tpm[g]), tpm[g]) end
    keep(KEYS[2 * g + 1], r[g], t[g], m[g])
    hold(KEYS[2 * g + 2], id, n, lease)
    c[g] = c[g] + n
  end
end
local answer = { verdict or 'admitted', which, redis.call('ZCARD', KEYS[1]), used }
for g = 1, gates do
  answer[#answer + 1] = text(r[g] - now)
  answer[#answer + 1] = text(t[g] - now)
  answer[#answer + 1] = c[g]
  answer[#answer + 1] = m[g]
end
return answer
`;

/**
 * Settles a reservation. Keys: month, then the bucket and leases of each limit scope. Arguments: ID, n, whether this is
 * a repetition, the month's tokens, the duration in ms or -1, then for each scope: the rpm limit if its request is
 * refunded, otherwise -1; tokens to return (negative: to take); the tpm limit or -1. Scopes whose lease is gone are
 * skipped, so nothing is returned twice.
 */
const SETTLE = `${HEAD}
local id, n, again, tokens, took = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5])
local held = 0
for g = 1, (#ARGV - 5) / 3 do
  local gone = 0
  for choice = 1, n do gone = gone + redis.call('ZREM', KEYS[2 * g + 1], id .. '.' .. choice) end
  held = held + gone
  if gone > 0 then
    local rpm, give, tpm = tonumber(ARGV[3 * g + 3]), tonumber(ARGV[3 * g + 4]), tonumber(ARGV[3 * g + 5])
    local r, t, m = bucket(KEYS[2 * g])
    if rpm >= 0 then r = math.max(now, r - cost(1, rpm)) end
    if tpm >= 0 then t = math.max(now, t - cost(give, tpm)) end
    if took >= 0 then
      took = math.max(1, took)
      if m == 0 then m = took else m = math.floor(m + (took - m) / 8 + 0.5) end
    end
    keep(KEYS[2 * g], r, t, m)
  end
end
if tokens > 0 and (held > 0 or not again) and redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HINCRBY', KEYS[1], 'used', tokens) end
return held
`;

/**
 * Reads the state of the limits. Keys: the bucket and leases of each limit scope. Returns the same values as RESERVE,
 * starting with the fifth.
 */
const LOOK = `${HEAD}
local answer = {}
for g = 1, #KEYS / 2 do
  local r, t, m = bucket(KEYS[2 * g - 1])
  answer[#answer + 1] = text(r - now)
  answer[#answer + 1] = text(t - now)
  answer[#answer + 1] = redis.call('ZCOUNT', KEYS[2 * g], '(' .. text(now), '+inf')
  answer[#answer + 1] = m
end
return answer
`;

/** Renews leases and creates missing ones. Keys: leases. Arguments: lease in ms, then an ID and its n for each key. */
const HOLD = `${HEAD}
for at, key in ipairs(KEYS) do hold(key, ARGV[2 * at], tonumber(ARGV[2 * at + 1]), tonumber(ARGV[1])) end
return #KEYS
`;

/**
 * Raises the times at which buckets will be full to at least the given ones. Keys: buckets. Arguments: for each key,
 * the minimum times in µs until each of its two buckets is full.
 */
const FLOOR = `${HEAD}
for at, key in ipairs(KEYS) do
  local r, t, m = bucket(key)
  keep(key, math.max(r, now + tonumber(ARGV[2 * at - 1])), math.max(t, now + tonumber(ARGV[2 * at])), m)
end
return #KEYS
`;

/**
 * Registers this process or renews its registration. Keys: processes. Arguments: this process, lease in ms. Returns the
 * time, 1 if the process was not registered, and all live processes.
 */
const JOIN = `${HEAD}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', text(now))
local fresh = redis.call('ZADD', KEYS[1], text(now + tonumber(ARGV[2]) * 1000), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) + 1000)
local all = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(all, 1, fresh)
table.insert(all, 1, text(now))
return all
`;

/** Removes this process. Keys: processes. Arguments: this process. */
const LEAVE = "return redis.call('ZREM', KEYS[1], ARGV[1])";

/**
 * Starts counting the tokens of requests that are settled after this call. Keys: month. Arguments: how long the counter
 * is kept, in ms.
 */
const CLAIM_MONTH = `
redis.call('HSETNX', KEYS[1], 'used', 0)
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
`;

/** Sets the stored usage at which a month's counter starts. Keys: month. Arguments: the month's stored tokens. */
const BEGIN_MONTH = "return redis.call('HSETNX', KEYS[1], 'base', ARGV[1])";

/**
 * Adds tokens to months' counters. Keys: months. Arguments: for each month, the tokens used while Redis was
 * unreachable.
 */
const ADD_MONTHS = `
for at, key in ipairs(KEYS) do if redis.call('EXISTS', key) == 1 then redis.call('HINCRBY', key, 'used', ARGV[at]) end end
return #KEYS
`;

export const SCRIPTS = {
  reserve: RESERVE,
  settle: SETTLE,
  look: LOOK,
  hold: HOLD,
  floor: FLOOR,
  join: JOIN,
  leave: LEAVE,
  claim_month: CLAIM_MONTH,
  begin_month: BEGIN_MONTH,
  add_months: ADD_MONTHS,
} as const;
export type ScriptName = keyof typeof SCRIPTS;

/** The scripts' time origin, in milliseconds since the Unix epoch. */
export const SCRIPT_EPOCH_MS = 1_767_225_600_000;
