import t from 'tap';
import { ERRORS, ERROR_TYPES } from '../../src/shared/error-codes.js';
import {
  apiError,
  chatErrorBody,
  errorBody,
  errorHeaders,
  messagesErrorBody,
  toApiError,
} from '../../src/shared/errors.js';
import { hostName } from '../../src/http/hosts.js';
import { errorFormatOf } from '../../src/http/error-format.js';
import * as ids from '../../src/shared/ids.js';

t.test('an error has an OpenAI and an Anthropic body', (t) => {
  const error = apiError('value_out_of_range', 'temperature must be between 0 and 2.', 'temperature');
  t.same(chatErrorBody(error), {
    error: {
      message: 'temperature must be between 0 and 2.',
      type: 'unprocessable_entity',
      param: 'temperature',
      code: 'value_out_of_range',
    },
  });
  t.same(messagesErrorBody(error, 'req_1'), {
    type: 'error',
    request_id: 'req_1',
    error: {
      type: 'unprocessable_entity',
      message: 'temperature must be between 0 and 2.',
      param: 'temperature',
      code: 'value_out_of_range',
      details: { error_code: 'value_out_of_range' },
    },
  });
  t.match(toApiError(new Error('inside')), { status: 500, code: 'internal_error', message: /unexpectedly/ });
  t.same(
    [...new Set(Object.values(ERRORS).map(({ status }) => String(status)))].sort(),
    Object.keys(ERROR_TYPES).sort(),
    'every status has a code and every code has a status',
  );
  t.end();
});

t.test('Retry-After is rounded up and clamped to 1 … 60 s', (t) => {
  const wait = (ms: number): (string | undefined)[] => {
    const headers = new Map(errorHeaders(apiError('capacity_exhausted', 'x', null, { retryAfterMs: ms }), 'chat'));
    return [headers.get('Retry-After'), headers.get('retry-after-ms')];
  };
  t.same([0, 0.2, 1000, 1001, 1e9].map(wait), [
    ['1', '1'],
    ['1', '1'],
    ['1', '1000'],
    ['2', '1001'],
    ['60', '60000'],
  ]);
  t.same(errorHeaders(apiError('insufficient_quota', 'x'), 'chat'), [
    ['Retry-After', '60'],
    ['retry-after-ms', '60000'],
    ['x-should-retry', 'false'],
  ]);
  t.same(errorHeaders(apiError('shutting_down', 'x'), 'chat')[0], ['Retry-After', '10']);
  t.same(errorHeaders(apiError('invalid_api_key', 'x'), 'chat'), [['WWW-Authenticate', 'Bearer']]);
  t.end();
});

t.test('the error format depends on the path and the headers', (t) => {
  const shape = (path: string, headers: Record<string, string> = {}): string =>
    errorFormatOf(path, (name) => headers[name] ?? '');
  for (const path of ['/v1/messages', '/v1/messages/count_tokens']) t.equal(shape(path), 'messages', path);
  for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/responses/resp_1', '/dashboard/api/me'])
    t.equal(shape(path, { 'x-api-key': 'k' }), 'chat', path);
  for (const path of ['/v1/models', '/nothing', '/v1/messagesx']) {
    t.equal(shape(path), 'chat', path);
    for (const headers of [
      { 'anthropic-version': '1' },
      { 'compat-version': '1' },
      { 'x-api-key': 'k' },
      { 'user-agent': 'Anthropic/JS 1' },
    ])
      t.equal(shape(path, headers), 'messages', path);
  }
  t.end();
});

t.test('generated identifiers are unique and have the documented form', (t) => {
  const forms: [() => string, RegExp][] = [
    [ids.newRequestId, /^req_[0-9A-Za-z]{24}$/],
    [ids.newChatCompletionId, /^chatcmpl-[0-9A-Za-z]{29}$/],
    [ids.newMessageId, /^msg_[0-9A-Za-z]{24}$/],
    [ids.newToolCallId, /^call_[0-9A-Za-z]{24}$/],
    [ids.newToolUseId, /^toolu_[0-9A-Za-z]{24}$/],
    [ids.newResponseId, /^resp_[0-9a-f]{48}$/],
    [() => ids.newItemId('rs'), /^rs_[0-9a-f]{48}$/],
    [() => ids.newAccountId('org'), /^org_[0-9A-Za-z]{24}$/],
  ];
  for (const [make, form] of forms) {
    const made = Array.from({ length: 300 }, make);
    t.ok(
      made.every((id) => form.test(id)),
      String(form),
    );
    t.equal(new Set(made).size, made.length);
  }
  const counts = new Map<string, number>();
  for (const character of ids.base62(62_000)) counts.set(character, (counts.get(character) ?? 0) + 1);
  t.equal(counts.size, 62);
  t.ok(
    [...counts.values()].every((count) => count > 800 && count < 1200),
    'characters are uniformly distributed',
  );
  t.end();
});

t.test('hostName() removes the port and normalizes the name', (t) => {
  t.same(['localhost:80', '[::1]:80', '[::1]', 'A.Example.:1', '1.2.3.4'].map(hostName), [
    'localhost',
    '::1',
    '::1',
    'a.example',
    '1.2.3.4',
  ]);
  t.end();
});

t.test("paths under /api have Ollama's errors, and paths that merely start with the same letters do not", (t) => {
  const format = (path: string): string => errorFormatOf(path, () => '');
  for (const path of ['/api', '/api/', '/api/chat', '/api/none']) t.equal(format(path), 'ollama', path);
  for (const path of ['/apis', '/api-docs', '/dashboard/api/me', '/admin/api/models', '/v1/api/chat'])
    t.equal(format(path), 'chat', path);
  t.strictSame(errorBody(apiError('invalid_value', 'model is wrong.', 'model'), 'ollama', 'req_1'), {
    error: 'model is wrong.',
  });
  t.end();
});
