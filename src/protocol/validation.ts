// From a zod failure to the error table: which issue counts, with which code, at which path. Shape errors
// (400) come before content errors (422), whatever the order zod found them in.
import type { z } from 'zod';
import { ApiError, apiError, type ErrorCode } from '../errors.js';

type Issue = z.core.$ZodIssue;

/** Attach to a custom issue: `ctx.addIssue({ code: 'custom', params: { api: 'conflicting_parameters' }, ... })`. */
export interface ApiIssueParams { api: ErrorCode }

export type Validated<T> =
  | { ok: true; value: T }
  | { ok: false; error: ApiError; isShape: boolean };   // isShape: a 400, which precedes every other check

export function validate<T>(schema: z.ZodType<T>, body: unknown): Validated<T> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return { ok: false, isShape: true, error: apiError('invalid_body', 'The request body must be a JSON object.', null) };
  }
  const result = schema.safeParse(body, { reportInput: false });
  if (result.success) return { ok: true, value: result.data };
  const errors = result.error.issues.map((issue) => toApiError(narrow(issue, body), body));
  const shape = errors.find((error) => error.status === 400);
  const error = shape ?? errors[0] ?? apiError('invalid_body', 'The request body is not valid.', null);
  return { ok: false, error, isShape: shape !== undefined };
}

/** A path as the error bodies spell it: messages[3].content[0].text. */
export function formatPath(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) text += typeof part === 'number' ? `[${part}]` : text === '' ? String(part) : `.${String(part)}`;
  return text;
}

/** Of a failed union, the issue of the branch the value evidently meant: one that looked inside it, else one of its type. */
function narrow(issue: Issue, body: unknown): Issue {
  if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue;
  const meant = issue.errors.find(([first]) => first !== undefined && first.path.length > 0) ??
    issue.errors.find(([first]) => first !== undefined && first.code !== 'invalid_type');
  const inner = meant?.[0];
  if (inner === undefined) return issue;
  return narrow({ ...inner, path: [...issue.path, ...inner.path] } as Issue, body);
}

function toApiError(issue: Issue, body: unknown): ApiError {
  const param = formatPath(issue.path) || null;
  const name = param ?? 'The request body';
  const value = valueAt(body, issue.path);
  const missing = value === undefined || value === null;
  switch (issue.code) {
    case 'invalid_type':
      if (missing) return apiError('missing_required_parameter', `${name} is required.`, param);
      return apiError('invalid_type', `${name} must be ${article(issue.expected)}, not ${article(kindOf(value))}.`, param);
    case 'invalid_union':
      if (missing) return apiError('missing_required_parameter', `${name} is required.`, param);
      if ('discriminator' in issue && issue.discriminator !== undefined) {
        return apiError('unknown_variant', `${name} has an unknown value${quoted(value)}.`, param);
      }
      return apiError('invalid_type', `${name} has the wrong type (${kindOf(value)}).`, param);
    case 'invalid_value': {
      if (missing) return apiError('missing_required_parameter', `${name} is required.`, param);
      const allowed = issue.values.map((item) => JSON.stringify(item)).join(', ');
      if (typeof value !== typeof issue.values[0]) {
        return apiError('invalid_type', `${name} must be ${article(kindOf(issue.values[0]))}, not ${article(kindOf(value))}.`, param);
      }
      return apiError('invalid_value', `${name} must be one of ${allowed}.`, param);
    }
    case 'too_small':
    case 'too_big':
      return lengthOrRange(issue, name, param);
    case 'custom': {
      const params = issue.params as Partial<ApiIssueParams> | undefined;
      const sentence = issue.message.startsWith('must ') ? `${name} ${issue.message}.` : issue.message;
      return apiError(params?.api ?? 'invalid_value', sentence, param);
    }
    default:
      return apiError('invalid_value', `${name}: ${issue.message}`, param);
  }
}

function lengthOrRange(issue: Extract<Issue, { code: 'too_small' | 'too_big' }>, name: string, param: string | null): ApiError {
  const small = issue.code === 'too_small';
  const bound = small ? issue.minimum : issue.maximum;
  switch (issue.origin) {
    case 'array':
      if (small && Number(bound) === 1) return apiError('missing_required_parameter', `${name} must not be empty.`, param);
      return small
        ? apiError('invalid_value', `${name} must have at least ${bound} entries.`, param)
        : apiError('array_too_long', `${name} may have at most ${bound} entries.`, param);
    case 'string':
      return small
        ? apiError('invalid_value', `${name} must have at least ${bound} character${Number(bound) === 1 ? '' : 's'}.`, param)
        : apiError('string_too_long', `${name} may have at most ${bound} characters.`, param);
    default: {
      const relation = small ? (issue.inclusive ? 'at least' : 'greater than') : issue.inclusive ? 'at most' : 'less than';
      return apiError('value_out_of_range', `${name} must be ${relation} ${bound}.`, param);
    }
  }
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value: unknown = body;
  for (const part of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

function article(kind: string): string {
  const word = kind === 'int' ? 'integer' : kind === 'record' ? 'object' : kind;
  return word === 'null' || word === 'undefined' ? word : /^[aeiou]/.test(word) ? `an ${word}` : `a ${word}`;
}

function quoted(value: unknown): string {
  return typeof value === 'string' && /^[\w.:-]{1,64}$/.test(value) ? ` "${value}"` : '';
}
