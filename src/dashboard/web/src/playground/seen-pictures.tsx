// A message's images. Each image is shown with details of how the model processes it: size, tiles, tokens.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ReactNode } from 'react';
import type { DashboardImagePlan } from '../../../../shared/wire/playground.js';
import { api } from '../api.js';
import { useOrganization } from '../session.js';
import type { Picture } from './conversation.js';
import { seenText } from './seen-text.js';

interface Size {
  width: number;
  height: number;
}

/** `model`: the model that receives the images; null if none does. */
export function SeenPictures({ pictures, model }: { pictures: readonly Picture[]; model: string | null }): ReactNode {
  return (
    <div className="pictures">
      {pictures.map((picture, index) => (
        <SeenPicture key={index} picture={picture} model={model} />
      ))}
    </div>
  );
}

function SeenPicture({ picture, model }: { picture: Picture; model: string | null }): ReactNode {
  const [size, setSize] = useState<Size | null>(null);
  const { id, path } = useOrganization();
  const plan = useQuery({
    queryKey: ['organization', id, 'image-plan', model, size?.width, size?.height],
    queryFn: ({ signal }) =>
      api.get<DashboardImagePlan>(
        `${path}/playground/image`,
        { model, width: size?.width, height: size?.height },
        signal,
      ),
    enabled: model !== null && size !== null,
    staleTime: Infinity,
    retry: false,
  });
  return (
    <figure className="picture">
      <img
        src={picture.dataUrl}
        alt={picture.name}
        // Uses the size as displayed, because both browsers and the server apply the EXIF orientation.
        onLoad={({ currentTarget: { naturalWidth: width, naturalHeight: height } }) => setSize({ width, height })}
      />
      {plan.data !== undefined && <figcaption className="hint">{seenText(plan.data)}</figcaption>}
    </figure>
  );
}
