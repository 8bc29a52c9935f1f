// Finds a JSON object's own members in its text, where numbers keep all their digits. Pure.
import { At, JsonScanner } from './json-scanner.js';

/** Returns the text of the value of each own member. */
export function valueSpans(text: string): Map<string, string> {
  const spans = new Map<string, string>();
  const scanner = new JsonScanner();
  let key = 0; // start of the last own key
  let value = -1; // start of its value
  for (let index = 0; index < text.length; index++) {
    const { at, depth } = scanner;
    if (!scanner.accept(text.charCodeAt(index))) return spans; // nested too deeply, or the end
    if (depth !== 1) continue;
    const now: At = scanner.at;
    if ((at === At.FirstKey || at === At.Key) && now === At.String) key = index;
    if (at === At.Colon && now === At.Value) value = index + 1;
    if (value === -1 || (now !== At.Key && now !== At.Done)) continue;
    spans.set(JSON.parse(text.slice(key, value - 1)) as string, text.slice(value, index).trim());
    value = -1;
  }
  return spans;
}
