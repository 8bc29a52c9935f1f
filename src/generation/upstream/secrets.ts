// Strings that must not appear in messages from an upstream: the configured key and header values, every credential
// within them, and all encodings in which a server may repeat them. No side effects.

/** Shorter values or parts are not treated as credentials, because masking them would garble unrelated messages. */
const MIN_PART = 6,
  MIN_VALUE = 4;
/** Credentials of at least this length are also masked if only their beginning appears. */
const MIN_SHORTENED = 16,
  SHORTENED = 10;
/** Separators within a header value: `Basic dXNl…`, `session=ab12; user=7`, `Digest username="a", response="b"`. */
const SEPARATORS = /[\s,;"']+/;
/** Words in header values that are keywords rather than secrets. */
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

/**
 * Returns the secrets, longest first, so that masking a short one never leaves part of a longer one visible. `least`:
 * minimum length of a secret. `most`: maximum number of values and parts; values take precedence over their parts.
 */
export function secretsIn(values: readonly string[], { least = MIN_VALUE, most = Infinity } = {}): string[] {
  const all = new Set<string>();
  const plain = new Set([...values, ...values.flatMap(partsOf)].filter(({ length }) => length >= least));
  for (const secret of [...plain].slice(0, most)) for (const written of writtenForms(secret)) all.add(written);
  return [...all].sort((a, b) => b.length - a.length);
}

/** Returns the value itself and the credentials within it. */
function partsOf(value: string): string[] {
  const parts: string[] = value.length < MIN_VALUE ? [] : [value];
  const add = (part: string): void => {
    if (part.length >= MIN_PART && !WORDS.has(part.toLowerCase())) parts.push(part);
  };
  for (const word of value.split(SEPARATORS)) {
    add(word);
    // name=value and user:password. A trailing = is base64 padding.
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

/**
 * Returns a secret in all forms that may occur in a message: in a URL, JSON within JSON, HTML, base64 or hexadecimal.
 */
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
    // Also covers HTTP basic authentication with an empty user name or password.
    Buffer.from(`:${secret}`).toString('base64'),
    Buffer.from(`${secret}:`).toString('base64'),
  ];
}

const MASK = '…';

/** Masks the secrets in `text`, including shortened forms such as sk-ab…yz, and the beginning of a long secret. */
export function masked(text: string, secrets: readonly string[]): string {
  return withoutSecrets(text, secrets).replace(/\b(sk|key|tok|hf)[-_][\w*.-]{4,}/gi, MASK);
}

/** Like masked(), but masks only complete secrets and the beginning of a long secret. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  let safe = text;
  for (const secret of secrets) safe = safe.replaceAll(secret, MASK);
  for (const secret of secrets) if (secret.length >= MIN_SHORTENED) safe = withoutBeginning(safe, secret);
  return safe;
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
