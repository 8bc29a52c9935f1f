// Converts a zod failure to an API error: selects the issue to report, and determines its error code and path. Errors
// in the JSON structure (400) take precedence over invalid content (422), regardless of the order of zod's issues.
import type { z } from 'zod';
import { ERRORS, type ErrorCode } from '../shared/error-codes.js';
import { apiError, type ApiError, type FieldFault } from '../shared/errors.js';
import { validatedEntries, FAULTY, MAX_FAULTY_ENTRIES } from './validate-in-slices.js';

type Issue = z.core.$ZodIssue;

/**
 * Parameters of a custom zod issue: `ctx.addIssue({ code: 'custom', params: { api: 'conflicting_parameters' }, message:
 * 'must be …' })`. In the error text, the message follows the field's name.
 */
export interface ApiIssueParams {
  api: ErrorCode;
}

// `isShape`: whether the error is structural (400). Structural errors take precedence over all other checks.
export type Validated<T> = { ok: true; value: T } | { ok: false; error: ApiError; isShape: boolean };

/** The search for a structural error stops after this many content errors. */
const MAX_CONTENT_FAULTS = MAX_FAULTY_ENTRIES;

export function validate<T>(schema: z.ZodType<T>, body: unknown): Validated<T> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return {
      ok: false,
      isShape: true,
      error: apiError('invalid_body', 'The request body must be a JSON object.', null),
    };
  }
  const result = schema.safeParse(body, { reportInput: false });
  if (result.success) return { ok: true, value: result.data };
  return refusal(firstFault(result.error.issues, body, []));
}

/** Like validate(), but throws ApiError 400 or 422. */
export function validated<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = validate(schema, body);
  if (!result.ok) throw result.error;
  return result.value;
}

/** Maximum number of invalid fields that validatedForm() names. */
const MAX_FORM_FAULTS = 20;

/**
 * Like validated(), for form bodies: if several fields are invalid, the error lists all of them, so that the form can
 * mark them together. Throws ApiError 400 or 422.
 */
export function validatedForm<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body, { reportInput: false });
  if (result.success) return result.data;
  const first = validate(schema, body);
  if (first.ok) return first.value;
  const { code, message, param } = first.error;
  const fields = new Map<string | null, FieldFault>([[param, { param, code, message }]]);
  for (const issue of result.error.issues) {
    for (const meant of narrow(issue)) {
      const fault = toFault(meant, valueAt(body, meant.path), formatPath(meant.path) || null);
      if (!fields.has(fault.param) && fields.size < MAX_FORM_FAULTS) fields.set(fault.param, fault);
    }
  }
  throw fields.size === 1 ? first.error : apiError(code, message, param, { fields: [...fields.values()] });
}

/** Validates one value of a request. `at`: its path in the request. Throws ApiError 400 or 422. */
export function validatedAt<T>(schema: z.ZodType<T>, value: unknown, at: readonly PropertyKey[]): T {
  const result = schema.safeParse(value, { reportInput: false });
  if (result.success) return result.data;
  throw refusal(firstFault(result.error.issues, value, at)).error;
}

/**
 * Validates every entry of a list that may be long and that is at `path` in the request. Stops at the first structural
 * error, whereas validate() would first collect every issue in every entry. `from` maps an entry to the value that is
 * validated instead.
 */
export function validateList<T>(
  item: z.ZodType<T>,
  list: readonly unknown[],
  path: string,
  from: (entry: unknown) => unknown = (entry) => entry,
): Validated<T[]> {
  const values: T[] = [];
  const validated = validatedEntries(item, list);
  // Copies all entries, possibly a hundred thousand, in one step.
  if (validated.length === list.length && !validated.includes(FAULTY))
    return { ok: true, value: validated.slice() as T[] };
  let content: Fault | null = null;
  let faults = 0;
  for (const [index, raw] of list.entries()) {
    if (index < validated.length && validated[index] !== FAULTY) {
      values.push(validated[index] as T);
      continue;
    }
    const entry = from(raw);
    const result = item.safeParse(entry, { reportInput: false });
    if (result.success) {
      values.push(result.data);
      continue;
    }
    const fault = firstFault(result.error.issues, entry, [path, index]);
    if (isShape(fault)) return refusal(fault);
    content ??= fault;
    if (++faults === MAX_CONTENT_FAULTS) break;
  }
  return content === null ? { ok: true, value: values } : refusal(content);
}

type Fault = FieldFault;

const isShape = ({ code }: Fault): boolean => ERRORS[code].status === 400;

function refusal(fault: Fault): { ok: false; error: ApiError; isShape: boolean } {
  return { ok: false, isShape: isShape(fault), error: apiError(fault.code, fault.message, fault.param) };
}

/**
 * Returns the first structural error or, if there is none, the first content error. `at`: the value's position in the
 * request.
 */
function firstFault(issues: readonly Issue[], value: unknown, at: readonly PropertyKey[]): Fault {
  let content: Fault | null = null;
  let faults = 0;
  search: for (const issue of issues) {
    for (const meant of narrow(issue)) {
      const fault = toFault(meant, valueAt(value, meant.path), formatPath([...at, ...meant.path]) || null);
      if (isShape(fault)) return fault;
      content ??= fault;
      if (++faults === MAX_CONTENT_FAULTS) break search;
    }
  }
  return content ?? { code: 'invalid_body', message: 'The request body is not valid.', param: null };
}

/** Maximum length of a name in a path. It is limited because the client may have chosen the name. */
const MAX_NAME = 64;

/** Formats a path as in error bodies: messages[3].content[0].text. */
export function formatPath(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') {
      text += `[${part}]`;
      continue;
    }
    const name = String(part);
    text += (text === '' ? '' : '.') + (name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name);
  }
  return text;
}

/**
 * Yields the issues of the union branch for which the value was evidently intended: a branch that failed inside the
 * value or, if there is none, one that matches the value's type.
 */
function* narrow(issue: Issue): Generator<Issue> {
  const meant =
    issue.code !== 'invalid_union'
      ? undefined
      : (issue.errors.find(([first]) => first !== undefined && first.path.length > 0) ??
        issue.errors.find(([first]) => first !== undefined && first.code !== 'invalid_type'));
  if (meant === undefined) {
    yield issue;
    return;
  }
  for (const inner of meant) yield* narrow({ ...inner, path: [...issue.path, ...inner.path] } as Issue);
}

function toFault(issue: Issue, value: unknown, param: string | null): Fault {
  const name = param ?? 'The request body';
  const fault = (code: ErrorCode, message: string): Fault => ({ code, message, param });
  const missing = value === undefined || value === null;
  switch (issue.code) {
    case 'invalid_type':
      if (missing) return fault('missing_required_parameter', `${name} is required.`);
      return fault('invalid_type', `${name} must be ${article(issue.expected)}, not ${article(kindOf(value))}.`);
    case 'invalid_union':
      if (missing) return fault('missing_required_parameter', `${name} is required.`);
      if ('discriminator' in issue && issue.discriminator !== undefined) {
        return fault('unknown_variant', `${name} has an unknown value${quoted(value)}.`);
      }
      return fault('invalid_type', `${name} has the wrong type (${kindOf(value)}).`);
    case 'invalid_value': {
      if (missing) return fault('missing_required_parameter', `${name} is required.`);
      const allowed = issue.values.map((item) => JSON.stringify(item)).join(', ');
      if (typeof value !== typeof issue.values[0]) {
        return fault(
          'invalid_type',
          `${name} must be ${article(kindOf(issue.values[0]))}, not ${article(kindOf(value))}.`,
        );
      }
      return fault('invalid_value', `${name} must be one of ${allowed}.`);
    }
    case 'too_small':
    case 'too_big':
      return { param, ...lengthOrRange(issue, name) };
    case 'custom': {
      const code = (issue.params as Partial<ApiIssueParams> | undefined)?.api ?? 'invalid_value';
      if (missing && code === 'invalid_type') return fault('missing_required_parameter', `${name} is required.`);
      return fault(code, `${name} ${issue.message}.`);
    }
    default:
      return fault('invalid_value', `${name}: ${issue.message}`);
  }
}

function lengthOrRange(issue: Extract<Issue, { code: 'too_small' | 'too_big' }>, name: string): Omit<Fault, 'param'> {
  const small = issue.code === 'too_small';
  const bound = small ? issue.minimum : issue.maximum;
  switch (issue.origin) {
    case 'array':
      if (small && Number(bound) === 1)
        return { code: 'missing_required_parameter', message: `${name} must not be empty.` };
      return small
        ? { code: 'invalid_value', message: `${name} must have at least ${bound} entries.` }
        : { code: 'array_too_long', message: `${name} may have at most ${bound} entries.` };
    case 'string':
      return small
        ? {
            code: 'invalid_value',
            message: `${name} must have at least ${bound} character${Number(bound) === 1 ? '' : 's'}.`,
          }
        : { code: 'string_too_long', message: `${name} may have at most ${bound} characters.` };
    default: {
      const relation = small
        ? issue.inclusive
          ? 'at least'
          : 'greater than'
        : issue.inclusive
          ? 'at most'
          : 'less than';
      return { code: 'value_out_of_range', message: `${name} must be ${relation} ${bound}.` };
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
