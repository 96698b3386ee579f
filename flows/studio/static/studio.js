"use strict";
// Two things that forms cannot do: send a file as it is, without a copy elsewhere, and follow work while it runs.

const upload = document.getElementById("upload");
if (upload) {
  const state = document.getElementById("upload-state");
  upload.addEventListener("submit", async (event) => {
    event.preventDefault();
    const file = document.getElementById("file").files[0];
    if (file.size > Number(upload.dataset.limit)) {
      state.textContent = `The file is larger than ${upload.dataset.limit / 1e9} GB; use a folder or a database as the source.`;
      return;
    }
    state.textContent = `Uploading ${file.name} …`;
    try {
      const answer = await fetch(`/upload?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
      const said = await answer.json();
      if (said.location) location.assign(said.location);
      else state.textContent = said.message;
    } catch {
      state.textContent = "The upload was cut off.";
    }
  });
}

const work = document.getElementById("work");
if (work && work.querySelector("[data-running=yes]")) {
  const look = async () => {
    const answer = await fetch(work.dataset.address).catch(() => null);
    if (!answer || !answer.ok) return setTimeout(look, 3000);
    if (answer.redirected) return location.assign(answer.url);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").body.firstElementChild;
    if (next.dataset.running === "no") return location.reload();
    const [old, now] = [work.querySelector(".status"), next.querySelector(".status")];
    // Screen readers read the line that changed, and not the whole list.
    if (old.textContent !== now.textContent) old.replaceChildren(...now.childNodes);
    const [list, longer] = [work.querySelector(".progress"), next.querySelector(".progress")];
    if (list && longer) list.replaceChildren(...longer.childNodes);
    setTimeout(look, 1000);
  };
  setTimeout(look, 1000);
}
