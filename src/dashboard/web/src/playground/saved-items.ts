// Names shared by the dialogs that save and list presets and conversations.

export const savedKey = (organizationId: string): readonly string[] => ['organization', organizationId, 'saved'];

/** The URL where members open a shared item. */
export const savedLink = (organizationId: string, id: string): string =>
  `${location.origin}/dashboard/shared/${organizationId}/${id}`;
