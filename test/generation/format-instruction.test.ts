import t from 'tap';
import { formatInstruction } from '../../src/generation/local/format-instruction.js';

t.test('instructs the model about the requested output format', async (t) => {
  t.equal(formatInstruction({ type: 'text' }), null);
  t.match(formatInstruction({ type: 'json_object' }), /JSON object/);
  t.ok(formatInstruction({ type: 'grammar', grammar: 'root ::= [a]', path: 'p' })?.endsWith('\nroot ::= [a]'));
  const schema = { type: 'object', properties: { a: { enum: ['x'] } } };
  t.ok(
    formatInstruction({ type: 'json_schema', name: 'n', schema, strict: true, path: 'p' })?.endsWith(
      `\n${JSON.stringify(schema)}`,
    ),
  );
});
