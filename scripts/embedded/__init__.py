"""Train the embedded sentiment classifier of heedful by distillation.

A larger classifier, the teacher, is fine-tuned on labelled texts. Its logits and hidden states for many texts are
stored. A small BERT, the student, starts with random weights and is trained on them. `--out` receives the student,
its tokenizer and its model card.

Files that must exist:
  DATA/sst2/{train,dev,test}.jsonl       Stanford Sentiment Treebank, two classes; fields "text" and "label" (0 or 1)
  DATA/sst2-phrases/{train,dev}.jsonl    SST-2 of GLUE; the same fields
  DATA/imdb/{train,test}.parquet         IMDB reviews; columns "text" and "label"
  RATINGS                                additional_resources/hutto_ICWSM_2014 of the source archive of
                                         vaderSentiment 3.3.2
  START                                  Hugging Face folder of a sentiment classifier: the teacher before fine-tuning

Run it in the root folder of the repository:
  python -m scripts.embedded --data DATA --ratings RATINGS --start START --work WORK --out OUT

Three stages follow each other: teacher, outputs, student. WORK stores their results, and the same command resumes an
interrupted run. The stored results are reused even if the settings have changed: then use a new folder.
"""
