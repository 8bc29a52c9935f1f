// Converts addresses in a text to HTML links. No side effects.

interface LinkOptions {
  /** Maximum number of displayed characters of an address; null = no maximum. */
  readonly limit: number | null;
  readonly rel: string;
  readonly target: string | null;
}

const WORD = /^([([{<]|&lt;)*(.*?)([)\]}>.,\n]|&gt;)*$/s;
const WEB = /^(https?:\/\/|www\.)\S*$/i;
const DOMAIN = /^[\w-]+(?:\.[\w-]+)*\.(?:com|net|int|edu|gov|org|info|mil)(?:[/?#]\S*)?$/i;
const MAIL = /^(?:mailto:)?[\w.!#$%&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)+$/i;

/** Longer words are not links, because matching them would take quadratic time. */
const MAX_WORD = 1_000;

/** `text`: already escaped for HTML. */
export function urlize(text: string, options: LinkOptions): string {
  return text
    .split(/(\s+)/)
    .map((word) => linked(word, options))
    .join('');
}

function linked(word: string, { limit, rel, target }: LinkOptions): string {
  const middle = word.length > MAX_WORD ? '' : (WORD.exec(word)?.[2] ?? '');
  const start = word.indexOf(middle);
  if (middle === '') return word;
  const href = addressOf(middle);
  if (href === null) return word;
  const mail = href.startsWith('mailto:');
  const shownText = mail
    ? middle.replace(/^mailto:/i, '')
    : limit !== null && middle.length > limit
      ? `${middle.slice(0, limit)}...`
      : middle;
  const attributes = mail ? '' : `${rel === '' ? '' : ` rel="${rel}"`}${target === null ? '' : ` target="${target}"`}`;
  return `${word.slice(0, start)}<a href="${href}"${attributes}>${shownText}</a>${word.slice(start + middle.length)}`;
}

function addressOf(word: string): string | null {
  if (WEB.test(word)) return /^https?:/i.test(word) ? word : `https://${word}`;
  if (MAIL.test(word)) return /^mailto:/i.test(word) ? word : `mailto:${word}`;
  return DOMAIN.test(word) ? `https://${word}` : null;
}
