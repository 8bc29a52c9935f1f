// Tools that Anthropic defines by type and date. A tool that the client runs becomes a function with the published
// parameters; a tool that Anthropic's servers run is omitted. Parameters: https://docs.claude.com (tool use). No side
// effects.
import type { JsonSchema } from '../../generation/types.js';
import { unreadMembers, type Unshown } from '../unread.js';

interface ClientTool {
  description: string;
  parameters: JsonSchema;
}

const string = (description: string): JsonSchema => ({ type: 'string', description });
const integer = (description: string): JsonSchema => ({ type: 'integer', description });
const pair = (description: string): JsonSchema => ({
  type: 'array',
  items: { type: 'integer' },
  minItems: 2,
  maxItems: 2,
  description,
});
const object = (properties: Readonly<Record<string, JsonSchema>>, required: readonly string[]): JsonSchema => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

const bash: ClientTool = {
  description: 'Runs a command in a bash shell whose state is kept between calls.',
  parameters: object(
    {
      command: string('The command. Required unless restart is true.'),
      restart: { type: 'boolean', description: 'Restarts the shell.' },
    },
    [],
  ),
};

const FILE_PARAMETERS = {
  path: string('Absolute path of a file or folder.'),
  file_text: string('For create: the content of the new file.'),
  old_str: string('For str_replace: the text to be replaced. It must occur exactly once.'),
  new_str: string('For str_replace: the new text.'),
  insert_line: integer('For insert: the line after which the text is inserted; 0 is the beginning of the file.'),
  view_range: pair('For view: the first and the last line, counted from 1; -1 is the end of the file.'),
};
const commands = (...names: string[]): JsonSchema => ({ type: 'string', enum: names });
const FILE_COMMANDS = ['view', 'create', 'str_replace', 'insert'];

const editor = (undo: boolean): ClientTool => ({
  description: 'Views, creates and edits text files.',
  parameters: object(
    {
      command: undo ? commands(...FILE_COMMANDS, 'undo_edit') : commands(...FILE_COMMANDS),
      ...FILE_PARAMETERS,
      ...(undo
        ? { new_str: string('For str_replace: the new text. For insert: the text to be inserted.') }
        : { insert_text: string('For insert: the text to be inserted.') }),
    },
    ['command', 'path'],
  ),
});

const memory: ClientTool = {
  description: 'Stores notes in files under /memories that persist between conversations. View /memories first.',
  parameters: object(
    {
      command: commands(...FILE_COMMANDS, 'delete', 'rename'),
      ...FILE_PARAMETERS,
      path: string('Path under /memories. Required except for rename.'),
      insert_text: string('For insert: the text to be inserted.'),
      old_path: string('For rename: the old path.'),
      new_path: string('For rename: the new path.'),
    },
    ['command'],
  ),
};

const ACTIONS = [
  'key',
  'type',
  'mouse_move',
  'left_click',
  'left_click_drag',
  'right_click',
  'middle_click',
  'double_click',
  'screenshot',
  'cursor_position',
];
const LATER_ACTIONS = ['left_mouse_down', 'left_mouse_up', 'scroll', 'hold_key', 'wait', 'triple_click'];

function computer(type: string, tool: Readonly<Record<string, unknown>>): ClientTool {
  const isFirst = type === 'computer_20241022';
  const zooms = type === 'computer_20251124' && tool['enable_zoom'] === true;
  const size = [tool['display_width_px'], tool['display_height_px']];
  const display = size.every((value) => typeof value === 'number') ? ` of ${size.join(' by ')} pixels` : '';
  return {
    description: `Controls a computer with a screen${display} by mouse and keyboard, and takes screenshots.`,
    parameters: object(
      {
        action: commands(...ACTIONS, ...(isFirst ? [] : LATER_ACTIONS), ...(zooms ? ['zoom'] : [])),
        coordinate: pair('The position as x and y in pixels.'),
        text: string('The text to type, or the keys to press.'),
        ...(isFirst
          ? {}
          : {
              start_coordinate: pair('For left_click_drag: where the drag starts.'),
              duration: { type: 'number', description: 'For wait and hold_key: seconds.' },
              scroll_direction: { type: 'string', enum: ['up', 'down', 'left', 'right'] },
              scroll_amount: integer('For scroll: the number of steps.'),
            }),
        ...(zooms
          ? {
              region: {
                type: 'array',
                items: { type: 'integer' },
                minItems: 4,
                maxItems: 4,
                description: 'For zoom: the corners x0, y0, x1 and y1.',
              },
            }
          : {}),
      },
      ['action'],
    ),
  };
}

const CLIENT_TOOLS: Readonly<Record<string, (tool: Readonly<Record<string, unknown>>) => ClientTool>> = {
  bash_20241022: () => bash,
  bash_20250124: () => bash,
  text_editor_20241022: () => editor(true),
  text_editor_20250124: () => editor(true),
  text_editor_20250429: () => editor(false),
  text_editor_20250728: () => editor(false),
  memory_20250818: () => memory,
  computer_20241022: (tool) => computer('computer_20241022', tool),
  computer_20250124: (tool) => computer('computer_20250124', tool),
  computer_20251124: (tool) => computer('computer_20251124', tool),
};

/** Returns the description and parameters of a tool that the client runs, or null for any other type. */
export function clientTool(tool: Readonly<Record<string, unknown>> & { type: string }): ClientTool | null {
  return Object.hasOwn(CLIENT_TOOLS, tool.type) ? (CLIENT_TOOLS[tool.type]?.(tool) ?? null) : null;
}

const unreadSetting = unreadMembers(['type', 'name']);
const unreadOfComputer = unreadMembers(['type', 'name', 'display_width_px', 'display_height_px']);
const unreadOfZoom = unreadMembers(['type', 'name', 'display_width_px', 'display_height_px', 'enable_zoom']);

/** Lists the settings of a client-side tool that have no effect. Other tool types are ignored entirely. */
export const unreadSettings: Unshown = (tool) => {
  const { type } = tool as { type: string };
  if (!Object.hasOwn(CLIENT_TOOLS, type)) return [];
  if (type === 'computer_20251124') return unreadOfZoom(tool);
  return (type.startsWith('computer_') ? unreadOfComputer : unreadSetting)(tool);
};

/** Whether a tool is Anthropic's own tool search, which its servers use to find deferred tools. */
export const isToolSearch = (type: string): boolean => type.startsWith('tool_search_tool_');
