import t from 'tap';
import { SectionStart } from '../../src/generation/section-start.js';
import type { GenerationEvent } from '../../src/generation/types.js';

type Piece = ['content' | 'reasoning', string];

function joined(pieces: Piece[]): { reasoning: string; content: string } {
  const start = new SectionStart();
  const result = { reasoning: '', content: '' };
  for (const [section, text] of pieces) {
    const event: GenerationEvent = { type: 'text', choice: 0, section, text, tokens: 1, logprobs: null };
    result[section] += start.strip(event).text;
  }
  return result;
}

t.test('line breaks around the markers go, wherever the pieces are cut', async (t) => {
  const reasoning = '\nfirst\n\nthen\n';
  const content = '\n\nThe answer\n\nin two parts';
  for (let a = 0; a <= reasoning.length; a++) {
    for (let b = 0; b <= content.length; b++) {
      const pieces: Piece[] = [
        ['reasoning', reasoning.slice(0, a)], ['reasoning', reasoning.slice(a)], ['content', content.slice(0, b)], ['content', content.slice(b)],
      ];
      t.same(joined(pieces), { reasoning: 'first\n\nthen\n', content: 'The answer\n\nin two parts' }, { diagnostic: false });
    }
  }
});

t.test('an answer without reasoning keeps its own', async (t) => {
  t.equal(joined([['content', '\n'], ['content', '\nx']]).content, '\n\nx');
});
