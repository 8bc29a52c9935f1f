// Which texts must not appear in what an upstream says: the configured key and header values, every part of them that is a
// credential, and both in the encodings that a server may repeat them in. Pure.

/** A shorter part of a value, or a shorter value, is no credential: masking it would garble every message that has the same letters. */
const MIN_PART = 6,
  MIN_VALUE = 4;
/** A credential that is this long is also masked where only its beginning is repeated. */
const MIN_SHORTENED = 16,
  SHORTENED = 10;
/** What separates parts of a header value: `Basic dXNl…`, `session=ab12; user=7`, `Digest username="a", response="b"`. */
const SEPARATORS = /[\s,;"']+/;
/** Parts of credentials that name something and say nothing by themselves. */
const WORDS: ReadonlySet<string> = new Set([
  'basic',
  'bearer',
  'digest',
  'negotiate',
  'apikey',
  'api-key',
  'token',
  'application/json',
  'text/event-stream',
]);

/** Longest first, so that no part of a secret is left where a longer one was. */
export function secretsIn(values: readonly string[]): string[] {
  const plain = new Set<string>(),
    all = new Set<string>();
  for (const value of values) for (const part of partsOf(value)) plain.add(part);
  for (const secret of plain) for (const written of writtenForms(secret)) all.add(written);
  return [...all].sort((a, b) => b.length - a.length);
}

/** The value itself, and what in it is a credential. */
function partsOf(value: string): string[] {
  const parts: string[] = value.length < MIN_VALUE ? [] : [value];
  const add = (part: string): void => {
    if (part.length >= MIN_PART && !WORDS.has(part.toLowerCase())) parts.push(part);
  };
  for (const word of value.split(SEPARATORS)) {
    add(word);
    // name=value, user:password; an = at the end pads base64.
    for (const named of [/^[^=]+=(.*[^=].*)$/.exec(word), /^[^:]+:(.+)$/.exec(word)]) add(named?.[1] ?? '');
  }
  const basic = /^basic\s+(\S+)$/i.exec(value.trim());
  if (basic !== null) {
    const pair = Buffer.from(basic[1] ?? '', 'base64').toString('utf8');
    add(pair);
    const password = pair.slice(pair.indexOf(':') + 1);
    if (password.length >= MIN_VALUE) parts.push(password);
  }
  return parts;
}

/** A secret as it may be repeated: in a URL, in JSON within JSON, in HTML, in base64 or hexadecimal digits. */
function writtenForms(secret: string): string[] {
  if (secret.length < MIN_PART) return [secret];
  const bytes = Buffer.from(secret);
  const percent = encodeURIComponent(secret),
    hex = bytes.toString('hex'),
    base64 = bytes.toString('base64');
  return [
    secret,
    percent,
    percent.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    percent.replaceAll('%20', '+'),
    JSON.stringify(secret).slice(1, -1),
    secret.replaceAll('/', '\\/'),
    secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;'),
    hex,
    hex.toUpperCase(),
    base64,
    base64.replace(/=+$/, ''),
    bytes.toString('base64url'),
    // As HTTP basic authentication has it, with either half empty.
    Buffer.from(`:${secret}`).toString('base64'),
    Buffer.from(`${secret}:`).toString('base64'),
  ];
}

const MASK = '…';

/** `text` without them, and without shortened ones: sk-ab…yz, or the beginning of a long one. */
export function masked(text: string, secrets: readonly string[]): string {
  let safe = text;
  for (const secret of secrets) safe = safe.replaceAll(secret, MASK);
  for (const secret of secrets) if (secret.length >= MIN_SHORTENED) safe = withoutBeginning(safe, secret);
  return safe.replace(/\b(sk|key|tok|hf)[-_][\w*.-]{4,}/gi, MASK);
}

function withoutBeginning(text: string, secret: string): string {
  const beginning = secret.slice(0, SHORTENED);
  let safe = '',
    from = 0;
  for (let at = text.indexOf(beginning); at >= 0; at = text.indexOf(beginning, from)) {
    let length = SHORTENED;
    while (length < secret.length && text[at + length] === secret[length]) length++;
    safe += text.slice(from, at) + MASK;
    from = at + length;
  }
  return safe + text.slice(from);
}
