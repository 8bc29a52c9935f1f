// Pins the error texts that client programs match.
import t from 'tap';
import { imageRefusedText, invalidThinkingText, promptTooLongText } from '../../src/shared/matched-texts.js';

t.test('error texts that client programs match stay exactly the same', async (t) => {
  t.equal(
    promptTooLongText('9000', 8192),
    "prompt is too long: 9000 tokens > 8191 maximum. This model's maximum context length is 8192 tokens.",
  );
  t.equal(
    invalidThinkingText('messages[1].content[0]', 'signature'),
    'messages[1].content[0]: invalid signature in thinking block: it was not created by this service. ' +
      'Send thinking blocks back unchanged, or omit them.',
  );
  t.equal(
    imageRefusedText('messages[0].content[1]: the image is damaged or incomplete.'),
    'Could not process image. messages[0].content[1]: the image is damaged or incomplete.',
  );
});
