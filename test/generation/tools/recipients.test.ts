// Tests models whose content has a header, as their calls do (Functionary 3.2). A marker within a response counts as a
// marker only if a recipient follows it; otherwise it is text. The model generates both the marker and the text after
// it.
import t from 'tap';
import { Engine } from '../../../src/engine/engine.js';
import type { EngineEvent } from '../../../src/engine/events.js';
import { loadStarter, plainText, promptOf, submitOptions } from '../../addon/starter.js';

t.test('parses a marker inside a response', async (t) => {
  const native = await loadStarter('recipients');
  const engine = new Engine(native);
  t.teardown(() => engine.close());
  interface Piece {
    readonly section: string;
    readonly text: string;
  }
  const say = (more: object): Promise<Piece[]> =>
    new Promise((resolve, reject) => {
      const pieces: Piece[] = [];
      engine.generate(
        submitOptions(promptOf(native, 'Tell me a short story about a fox.'), {
          maxTokens: 40,
          ignoreEos: false,
          ...more,
        }),
        (event: EngineEvent) => {
          if (event.type === 'text') pieces.push({ section: event.section, text: event.text });
          else if (event.type === 'failed') reject(new Error(event.message));
          else if (event.type === 'finished') resolve(pieces);
        },
      );
    });
  const textOf = (pieces: readonly Piece[], section?: string): string =>
    pieces
      .filter((piece) => section === undefined || piece.section === section)
      .map(({ text }) => text)
      .join('');
  const whole = textOf(await say({}));
  const tokens = [...native.tokenize(whole, plainText)].map((token) => native.detokenize(Int32Array.of(token)));
  // A marker that occurs only once in the response, after some content, and the token that follows it.
  const at = tokens.findIndex(
    (text, index) =>
      index > 0 && text.trim() !== '' && whole.split(text).length === 2 && (tokens[index + 1] ?? '').trim() !== '',
  );
  const open = tokens[at]!,
    next = tokens[at + 1]!;
  const { grammar } = await engine.compileGrammar({
    kind: 'json_schema',
    schema: '{"enum":["here","there"]}',
    strict: true,
    oneOfAsAnyOf: true,
    order: 'schema',
    whiteSpace: 'none',
  });
  const withCalls = (name: string): Promise<Piece[]> =>
    say({
      calls: {
        open,
        close: '',
        atStart: false,
        prefixes: [`${name}=get:`],
        grammars: [grammar],
        answer: 'all\n',
        endsItself: true,
        required: false,
        forbidden: false,
      },
    });
  const recipient = [...native.tokenize(`${next}=get:`, plainText)],
    [token] = native.tokenize(next, plainText);
  t.equal(recipient[0], token, 'the recipient starts with a token that the model generated');
  const called = textOf(await withCalls(next), 'tool');
  t.ok(
    ['here', 'there'].some((place) => called.startsWith(`${open}${next}=get:"${place}"`)),
    `the call is constrained to its name and arguments: ${called}`,
  );
  const text = await withCalls('zebra');
  t.equal(textOf(text), whole, 'the marker is text if no recipient follows');
  t.equal(textOf(text, 'tool'), open, 'the marker is reported as a possible call until the next text arrives');
});
